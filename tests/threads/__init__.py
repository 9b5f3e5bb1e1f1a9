"""Threads from the point of view of their users: every verb, bad input, and the mistakes of newcomers; public API only."""
