"""Measures one workload of one library in this process and prints one line of JSON.

Started by `compare.py` in a fresh process: `python -m benchmarks.child LIBRARY WORKLOAD --sizes 100,1000 --budget 20`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib import util
from typing import Any

from benchmarks.catalogue import BY_NAME, Work

BLOCK_S = 0.06
"""A timed block repeats a run until it lasts about this long, well above the resolution of the clock."""
BLOCKS = 7
STORED = ("store_", "load", "payload")
"""Prefixes of the workloads in a library's `_store` file."""


def measure(run: Callable[[], Any], first: dict[str, float], *, budget_s: float) -> dict[str, float]:
    """Seconds of one run: the medians over a few blocks. For a run that takes seconds the first time counts."""
    first_s = first["wall"]
    if first_s > budget_s:
        return first
    if first_s < BLOCK_S:
        start = time.perf_counter()
        run()
        first_s = time.perf_counter() - start
    inner = max(1, math.ceil(BLOCK_S / max(first_s, 1e-7)))
    blocks = max(1, min(BLOCKS, int(budget_s / max(first_s * inner, 1e-7))))
    cpu, wall = [], []
    for _ in range(blocks):
        gc.collect()
        wall_0, cpu_0 = time.perf_counter(), time.process_time()
        for _ in range(inner):
            run()
        cpu.append((time.process_time() - cpu_0) / inner)
        wall.append((time.perf_counter() - wall_0) / inner)
    return {"cpu": statistics.median(cpu), "wall": statistics.median(wall), "runs": inner * blocks}


def check(work: Work, seen: dict[str, Any], size: int) -> None:
    """A library with a different final state did different work; None means an unsupported workload."""
    expected = work.expected(size)
    wrong = {key: seen.get(key) for key, value in expected.items() if seen.get(key, ...) not in (value, None)}
    if wrong:
        raise AssertionError(f"{work.name} of {size} ended with {wrong}, expected {expected}")


class OverBudgetError(Exception):
    """Raised in the middle of a run that has taken too long."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt a run after *seconds*, where the platform supports it."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    late = False

    def give_up(signum: int, frame: Any) -> None:
        nonlocal late
        late = True
        raise OverBudgetError

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Exception as error:
        if late:  # or whatever the library converted it to
            raise OverBudgetError from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def sizes_of(module: Any, work: Work, sizes: list[int], *, budget_s: float) -> dict[str, Any]:
    """Measure *work* at growing *sizes*, stopping where a run takes longer than the budget."""
    from benchmarks.work.common import OBSERVE, plain

    observe, results = OBSERVE.get(work.name, plain), {}
    last_s, last_units = 0.0, 1
    for size in sizes:
        units = work.units(size)
        too_long = last_s * units / last_units > budget_s
        if not too_long:
            try:
                with at_most(1.5 * budget_s):
                    run = getattr(module, work.name)(size)
                    wall_0, cpu_0 = time.perf_counter(), time.process_time()
                    seen = run()  # also serves as warm-up
                    first = {"cpu": time.process_time() - cpu_0, "wall": time.perf_counter() - wall_0, "runs": 1}
            except OverBudgetError:
                too_long = True
        if too_long:
            results.update({str(left): {"skipped": f"> {budget_s:.0f} s"} for left in sizes[sizes.index(size) :]})
            break
        check(work, observe(seen), size)
        results[str(size)] = measure(run, first, budget_s=min(budget_s, 3.0))
        last_s, last_units = results[str(size)]["wall"], units
    return results


def peak_bytes() -> int:
    """The peak memory of this process."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory_of(module: Any, work: Work, sizes: list[int], *, budget_s: float) -> dict[str, Any]:
    """The growth of the peak per step in bytes, from a short run to a long one; a slow library runs fewer steps."""
    from benchmarks.work.common import plain

    short = 2_000
    check(work, plain(module.memory(short)()), short)
    start = time.perf_counter()
    module.memory(short)()
    per_step_s = (time.perf_counter() - start) / short
    results = {}
    for size in sizes:
        steps = max(2 * short, min(size, int(budget_s / per_step_s))) // 2 * 2
        run, before = module.memory(steps), peak_bytes()
        seen = run()
        grown = peak_bytes() - before
        check(work, plain(seen), steps)
        results[str(size)] = {"cpu": grown / (steps - short), "wall": grown / (steps - short), "steps": steps}
    return results


def bytes_of(module: Any, work: Work, sizes: list[int], *, budget_s: float) -> dict[str, Any]:
    """Bytes on disk of a run of each size."""
    results: dict[str, Any] = {}
    for size in sizes:
        try:
            with at_most(budget_s):
                left = getattr(module, work.name)(size)()["bytes"]
        except OverBudgetError:
            results[str(size)] = {"skipped": f"> {budget_s:.0f} s"}
            continue
        results[str(size)] = {"cpu": left, "wall": left}
    return results


def module_with(library: str, function: str) -> Any:
    """The file of *library* that has the workload, or None. Only the needed modules are imported."""
    for name in (f"{library}_store", library) if function.startswith(STORED) else (library, f"{library}_"):
        # Converted graphs come from another library, and are listed beside the libraries.
        for path in (f"benchmarks.work.{name}", f"benchmarks.{name}"):
            if util.find_spec(path) is not None and hasattr(module := importlib.import_module(path), function):
                return module
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("work")
    parser.add_argument("--sizes", required=True)
    parser.add_argument("--budget", type=float, default=20.0)
    options = parser.parse_args()
    work, sizes = BY_NAME[options.work], [int(size) for size in options.sizes.split(",")]
    # a library's output during a run is part of its cost, but not of this process's answer
    answer, devnull = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    result: dict[str, Any] = {}
    module = module_with(options.library, work.name)
    if module is None:
        result["absent"] = True
    else:
        worker = {"memory": memory_of, "bytes": bytes_of}.get(work.kind, sizes_of)
        result["sizes"] = worker(module, work, sizes, budget_s=options.budget)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os.write(answer, json.dumps(result).encode() + b"\n")
    os._exit(0)  # a library's exit hooks are not measured, and some wait for the network


if __name__ == "__main__":
    main()
