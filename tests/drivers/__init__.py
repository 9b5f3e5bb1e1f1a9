"""Drivers: timeouts, cancellation, Ctrl-C, worker threads, loops; nothing may outlive a run."""
