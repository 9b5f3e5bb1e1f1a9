"""Policies of nodes: from the entries of a manifest to arguments of `add_node`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from graphrt.commands import END, START
from graphrt.errors import InputError, Problem
from graphrt.limits import RetryPolicy
from graphrt.specs.forms import Section
from graphrt.specs.manifest import BudgetSpec, FunctionRef, PolicySpec, RetrySpec
from graphrt.specs.problems import problems_of_error
from graphrt.specs.registry import Registry

if TYPE_CHECKING:
    from graphrt.harness import Budget

GONE: Final = object()
"""Placeholder for names that the registry lacks."""


class Looks(Protocol):
    """Looks names up, and collects problems."""

    registry: Registry
    problems: list[Problem]

    def named(self, section: Section, name: str, path: str) -> Any:
        """Resolve a name; `GONE`, with a problem, if it is unknown."""
        ...


def ref(name: str) -> Any:
    """Return a node, START or END by its name."""
    return START if name == "START" else END if name == "END" else name


def policy_of(look: Looks, spec: PolicySpec, where: str, *, of_agent: bool) -> dict[str, Any]:
    """Return the policy of a node as arguments of `add_node`.

    Args:
        look: Looks names up.
        spec: The policy in the manifest.
        where: Its path.
        of_agent: Whether the node is an agent, which may use its own tools unless the policy names some. Any other node
            in a manifest gets only the tools that its policy names.
    """
    arguments = {name: getattr(spec, name) for name in spec.model_fields_set}
    if spec.tools is None:
        arguments.pop("tools", None)
        arguments |= {} if of_agent else {"tools": []}
    for name in ("on_error", "on_fatigue"):
        if arguments.get(name) is not None:
            arguments[name] = ref(arguments[name])
    for name in ("goto", "hands_over_to"):
        if arguments.get(name) is not None:
            arguments[name] = [ref(target) for target in arguments[name]]
    if isinstance(spec.retry, RetrySpec):
        arguments["retry"] = retry_of(look, spec.retry, f"{where}.retry")
    if spec.budget is not None:
        arguments["budget"] = budget_of(look, spec.budget, f"{where}.budget")
    if spec.key is not None:
        arguments["key"] = look.named("functions", spec.key, f"{where}.key")
    for name in ("input", "output", "update_of"):
        if isinstance(arguments.get(name), FunctionRef):
            arguments[name] = look.named("functions", arguments[name].function, f"{where}.{name}.function")
    return {name: value for name, value in arguments.items() if value is not GONE}


def retry_of(look: Looks, spec: RetrySpec, path: str) -> RetryPolicy:
    """Return a retry policy."""
    arguments: dict[str, Any] = {name: getattr(spec, name) for name in spec.model_fields_set}
    on = spec.retry_on
    if isinstance(on, str):
        cls = look.registry.exception(on)
        arguments["retry_on"] = cls if cls is not None else look.named("functions", on, f"{path}.retry_on")
    elif on is not None:
        classes = [
            look.registry.exception(name) or look.named("types", name, f"{path}.retry_on[{at}]")
            for at, name in enumerate(on)
        ]
        arguments["retry_on"] = tuple(classes)
    if arguments.get("retry_on") is GONE or (isinstance(on, list) and GONE in arguments["retry_on"]):
        del arguments["retry_on"]
    return RetryPolicy(**arguments)


def budget_of(look: Looks, spec: BudgetSpec, path: str) -> Budget | None:
    """Return a budget; None, and a problem, if it is not valid."""
    from graphrt.harness import Budget

    try:
        return Budget(**spec.model_dump(exclude_unset=True))
    except InputError as error:
        look.problems += problems_of_error(error, path, None)
    return None
