"""graphrt only, one graph shape per test, for profiling. The figures are per run: divide by the size in the name.

python -m pytest benchmarks/micro                                       # a table
python -m pytest benchmarks/micro -k grow --benchmark-cprofile=tottime  # where the time goes
python -m pytest benchmarks/micro --benchmark-autosave                  # then change something, and
python -m pytest benchmarks/micro --benchmark-compare
"""

from __future__ import annotations

import pytest
from benchmarks.catalogue import BY_NAME
from benchmarks.work import graphrt_
from benchmarks.work.common import OBSERVE, plain

pytest.importorskip("pytest_benchmark")

SHAPES = {
    "step": [("chain_sync", 1_000), ("chain_async", 1_000), ("loop_dict_sync", 1_000), ("loop_dict_async", 1_000),
             ("loop_model_sync", 1_000), ("loop_model_async", 1_000)],
    "append": [("grow", 1_000), ("grow", 10_000)],
    "fan-out": [("fan_sync", 10), ("fan_sync", 1_000), ("fan_async", 10), ("fan_async", 1_000)],
    "compile": [("build", 100), ("build", 1_000)],
    "steps": [("stream_flat", 1_000), ("stream_grow", 1_000), ("stream_grow", 5_000)],
    "runs": [("concurrent", 100)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("group", "name", "n"),
    [pytest.param(group, name, n, id=f"{name}-{n}") for group, cases in SHAPES.items() for name, n in cases],
)
def test_run(benchmark, group, name, n):
    benchmark.group = group
    run = getattr(graphrt_, name)(n)

    result = benchmark(run)

    assert OBSERVE.get(name, plain)(result) == BY_NAME[name].expected(n)
