"""Errors of explorations: arguments of the explorers, and alternatives that no run can take."""

from __future__ import annotations

from graphrt.errors._codes.arguments import INVALID_ARGUMENT

IMPOSSIBLE_ALTERNATIVE = INVALID_ARGUMENT.variant(
    "An alternative of node {key!r} is impossible: {problem}",
    fix="Correct it, or pass a function that returns it if this is the bug that you look for.",
)
IMPOSSIBLE_REPLIES = INVALID_ARGUMENT.variant(
    "The replies of a model are missing or impossible: {error:described}",
    fix="Correct replies={{agent: [...]}} or harness=[...], or pass alternatives= of the node.",
)
