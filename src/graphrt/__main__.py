"""`python -m graphrt`: the command line; see `graphrt.cli`."""

from __future__ import annotations

import sys

from graphrt.cli import main

if __name__ == "__main__":
    sys.exit(main())
