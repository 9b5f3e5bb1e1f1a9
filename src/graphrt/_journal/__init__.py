"""Floor 3: the journal. Events become numbered entries, entries become bytes in a store, and bytes become state again."""
