"""The journal: events become numbered entries, entries become bytes in a store, and bytes become state again."""
