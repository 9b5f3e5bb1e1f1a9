"""Programs that show graphrt at work; each runs as it is, with no key and no network."""
