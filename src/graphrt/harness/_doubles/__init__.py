"""Common parts of the test doubles: selecting the answer to a call, and streaming a reply in pieces."""
