"""Threads whose process is killed by SIGKILL at every point, in trials. `python -m tests.crash -h` runs one."""
