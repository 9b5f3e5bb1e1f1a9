"""Declarations of all error codes, split by subject: one `ErrorCode` or `Finding` for each code, and its variants.

Only declarations live here: values of `graphrt.errors._error_code`. Nothing decides when to raise.
"""
