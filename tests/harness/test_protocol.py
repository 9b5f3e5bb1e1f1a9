"""The protocols say of a harness what `RunOptions` says of its options."""

from __future__ import annotations

import inspect

from graphrt.harness import AgentHarness, RunOptions


def test_harness_takes_every_option_of_run_options_with_its_type_and_nothing_else() -> None:
    """Of `output` a harness may say that it takes less: a graph hands it an OutputSpec, whatever its node gave."""
    parameters = inspect.signature(AgentHarness.run).parameters.values()
    options = {one.name: one.annotation for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}

    declared = {name: annotation.__forward_arg__ for name, annotation in RunOptions.__annotations__.items()}
    assert declared.pop("output") == "object"
    assert options.pop("output") == "Any"
    assert options == declared
    assert all(one.default is ... for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY)
