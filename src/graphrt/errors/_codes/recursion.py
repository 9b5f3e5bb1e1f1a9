"""Errors of `recursive`: its arguments, its text, and readers that find no answer."""

from __future__ import annotations

from graphrt.errors import InputError, LimitError
from graphrt.errors._error_code import ErrorCode

NOT_A_LONG_TEXT = ErrorCode(
    "not-a-long-text",
    InputError,
    "{given:a_type} is not a text that can be read in parts.",
    known="a str, a sequence or mapping of str, a path of a file, a binary file, or a LongText",
    fix="Return one of these from context=, or name a field that holds one.",
)
LONG_TEXT_CHANGED = ErrorCode(
    "long-text-changed",
    InputError,
    "The text changed while it was read: it was {before}, and is {now}.",
    known="answers and offsets that were recorded belong to the text as it was",
    fix="Restore it and retry the thread, or start over with run(..., if_exists='abandon').",
    boundary=True,
)
QUESTION_TOO_LONG = ErrorCode(
    "question-too-long",
    InputError,
    "The question has {size:,} characters.",
    known="question_chars={limit}, because the question is part of every prompt",
    fix="Put long parts into the context, or raise RecursiveLimits(question_chars=...).",
    boundary=True,
)
READING_WITHOUT_ANSWER = ErrorCode(
    "reading-without-answer",
    LimitError,
    "Model {model!r} did not answer within {option}={limit}.",
    known="the last request said so and allowed no tool call; {calls:count model call} in all",
    fix="Raise RecursiveLimits({option}=...), or route the error: on_error= of the node.",
    boundary=True,
)
