"""The form of an answer: what `output=` means, its JSON schema, and how a reply is read as a value."""
