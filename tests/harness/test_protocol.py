"""The protocols describe the options of a harness like `RunOptions`."""

from __future__ import annotations

import inspect

from graphrt.harness import AgentHarness, RunOptions


def test_harness_takes_exactly_the_options_of_run_options_with_their_types() -> None:
    """Only for `output` a harness may declare fewer types: a graph passes it an OutputSpec, whatever its node passed."""
    parameters = inspect.signature(AgentHarness.run).parameters.values()
    options = {one.name: one.annotation for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}

    declared = {name: annotation.__forward_arg__ for name, annotation in RunOptions.__annotations__.items()}
    assert declared.pop("output") == "object"
    assert options.pop("output") == "Any"
    assert options == declared
    assert all(one.default is ... for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY)
