"""A worker of the service: `python -m examples.background.worker` runs until SIGTERM or Ctrl-C."""

from __future__ import annotations

from graphrt.workers import Worker

from .graph import runtime


def main() -> None:
    """Drive reports until the process is asked to stop."""
    with runtime() as reports:
        Worker(reports).serve(grace_s=10)


if __name__ == "__main__":
    main()
