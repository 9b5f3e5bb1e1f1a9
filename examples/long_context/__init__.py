"""A question about a log of ten megabytes, which fits no prompt: search, many small questions at once, one answer.

Run it with `python -m examples.long_context`.
"""
