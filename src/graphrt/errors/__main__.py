"""`python -m graphrt.errors CODE...`: print the documentation of error codes; without a code, list them all.

Exit status: 0, or 2 if a code is unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphrt.errors._page import sections
from graphrt.errors._words import closest


def main(codes: Sequence[str]) -> int:
    """Print the sections of *codes*, or list all codes. Returns the exit status."""
    known = sections()
    if not codes:
        print(*known, sep="\n")
        return 0
    unknown = [code for code in codes if code not in known]
    for code in unknown:
        guess = closest(code, known)
        hint = f"Did you mean {guess!r}?" if guess else "Run python -m graphrt.errors to list all codes."
        print(f"There is no error code {code!r}. {hint}", file=sys.stderr)
    if unknown:
        return 2
    print("\n\n".join(f"{code}\n{'=' * len(code)}\n\n{known[code]}" for code in codes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
