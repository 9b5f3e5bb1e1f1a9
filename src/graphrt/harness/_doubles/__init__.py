"""Common parts of the test doubles: which answer a call gets, and how a reply is streamed in pieces."""
