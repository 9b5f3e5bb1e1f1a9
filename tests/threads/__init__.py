"""Threads as their users meet them: every verb, bad input, and newcomers' mistakes; by the public face alone."""
