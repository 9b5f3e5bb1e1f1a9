"""Threads whose process is killed by SIGKILL at every point: a proof by trials. `python -m tests.crash -h` makes one."""
