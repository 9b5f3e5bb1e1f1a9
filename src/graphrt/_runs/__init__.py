"""Inside of `Runtime` (floor 6, private): opening, driving and closing runs, and reading and editing threads."""
