"""The manifest of a graph: pydantic models of nodes, edges, policies, limits and the state's fields.

Data only. The kind of a node defines its other fields: see `forms`. `reading` turns a manifest into a graph, and
`writing` a graph into a manifest.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

VERSION: Final = 1
"""Version of the format that is written."""

Number: TypeAlias = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True, allow_inf_nan=False)]
"""A finite number. An int stays an int, because fingerprints distinguish 1 and 1.0."""
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1)]


class SpecEntry(BaseModel):
    """Base of everything in a manifest: closed, immutable, and without type conversions."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, strict=True, populate_by_name=True, use_attribute_docstrings=True
    )


class FunctionRef(SpecEntry):
    """A function of the registry, where a text or value would also be valid."""

    function: Name
    """Its name in the registry."""


class RetrySpec(SpecEntry):
    """Which failed attempts are retried, and when."""

    attempts: int = 3
    """Total attempts, including the first."""
    wait_initial_s: Number = 0.5
    wait_max_s: Number | None = None
    growth: Number = 2.0
    jitter: bool = True
    retry_on: Name | list[Name] | None = None
    """Names of exception classes, or of a function that judges an exception."""


class BudgetSpec(SpecEntry):
    """How much the model calls of a task may use."""

    tokens: int | None = None
    usd: Number | None = None
    calls: int | None = None
    seconds: Number | None = None
    on_exceeded: Literal["stop", "route", "interrupt"] = "stop"
    warn_at: Number = 0.8


class PolicySpec(SpecEntry):
    """The policy of a node: the policy arguments of `add_node`."""

    retry: int | RetrySpec | None = None
    timeout_s: Number | None = None
    """Seconds for one attempt."""
    idle_timeout_s: Number | None = None
    """Seconds that an attempt may continue without a sign of life."""
    on_error: Name | None = None
    """Node, or END, that takes over if the node fails permanently."""
    on_fatigue: Name | None = None
    max_visits: int | None = None
    """Supersteps in which the node may be active; null means no limit."""
    cache: bool | int = False
    key: Name | None = None
    """Function of the registry that makes the cache key."""
    writes: list[Name] | None = None
    goto: list[Name] | None = None
    """Targets of the node's Commands."""
    hands_over_to: list[Name] | None = None
    """For a nested graph: nodes of this graph, or END, that it may route to, besides those that it declares itself."""
    interrupt_before: bool = False
    interrupt_after: bool = False
    defer: bool = False
    """Run the node when nothing else is due."""
    version: str | None = None
    tools: list[Name] | None = None
    """Tools of the run's agent that the node may use; null for none. For an agent as a node: its tools; null for all."""
    budget: BudgetSpec | None = None
    input: dict[Name, Name] | FunctionRef | None = None
    """For a nested graph: its field to this graph's field."""
    output: dict[Name, Name] | FunctionRef | None = None
    """For a nested graph: this graph's field to its field."""
    update_of: FunctionRef | None = None
    """For a nested graph: function of the registry from its updates to those of this graph."""
    stateful: Name | None = None
    """For a nested graph: field of this graph that keeps its state from task to task."""
    inline: bool = False
    queue: Name | None = None
    """Queue whose workers run the node."""


class NodeSpec(BaseModel):
    """A node. Its other fields belong to its kind."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="allow", frozen=True, strict=True, use_attribute_docstrings=True
    )

    name: Name
    """Unique in its graph; not START or END."""
    kind: Name
    policy: PolicySpec = PolicySpec()

    @property
    def arguments(self) -> dict[str, Any]:
        """The fields that belong to the kind."""
        return dict(self.model_extra or {})


class EdgeSpec(SpecEntry):
    """A static edge."""

    source: Name = Field(alias="from")
    """A node, or START."""
    target: Name = Field(alias="to")
    """A node, or END."""


class EnumLabel(SpecEntry):
    """A label that is a member of an enum."""

    enum: Name
    """Class and member, such as "Verdict.GOOD"."""


class RouteSpec(SpecEntry):
    """A route whose label is not a string."""

    label: str | bool | int | EnumLabel
    target: Name = Field(alias="to")


class ConditionalSpec(SpecEntry):
    """A conditional edge: a router chooses among routes."""

    source: Name = Field(alias="from")
    """A node, or START."""
    router: Name | dict[str, Any]
    """A router of the registry, or the form of a ready-made one: {"kind": "field", "field": "verdict"}."""
    routes: dict[str, Name] | list[Name] | list[RouteSpec]
    """Label to target; or targets that are their own labels."""
    default: Name | None = None
    """Target of any other label."""


class JoinSpec(SpecEntry):
    """A node that waits for several others."""

    sources: list[Name] = Field(alias="from")
    target: Name = Field(alias="to")
    when: Literal["all", "any"] | int = "all"
    starved: Literal["error", "ignore", "run"] = "error"


class LimitsSpec(SpecEntry):
    """Limits of a run; an omitted limit has its default."""

    max_steps: int = 1_000
    max_visits: int | None = 50
    max_tasks: int = 10_000
    max_concurrency: int | None = None
    max_depth: int = 16
    timeout_s: Number | None = None
    step_timeout_s: Number | None = None
    """Seconds for the tasks of one superstep."""
    deadline_s: Number | None = None
    grace_s: Number = 5.0
    max_input_bytes: int | None = 16 * 1024**2


class FieldSpec(SpecEntry):
    """A field of the state."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    """As in Python: `list[str]`, `int | None`. Classes are those of the registry."""
    reducer: Name = "overwrite"
    """A built-in reducer, or one of the registry."""
    required: bool = False
    """Whether an input must have the field."""
    default: Any = None
    """Default as data. If omitted, the field is required, may be absent, or has a default in code."""
    ephemeral: bool = False
    redacted: bool = False
    untracked: bool = False


class StateSpec(SpecEntry):
    """The state: a class of the registry, fields, or both."""

    class_name: Name | None = Field(default=None, validation_alias="class", serialization_alias="class")
    kind: Literal["pydantic", "dataclass", "typeddict"] = "pydantic"
    """The kind of class to make from the fields if the registry does not have the class."""
    fields: dict[Name, FieldSpec] | None = None


class GraphSpec(SpecEntry):
    """A graph as data. Nodes are in task order."""

    spec_version: Literal[1] = VERSION
    name: Name = "graph"
    version: int = Field(default=0, ge=0, strict=True)
    """Number of the build, which is not part of the fingerprint."""
    hands_over_to: list[Name] = []
    """Nodes of enclosing graphs, or END, that it may route to where it is nested."""
    state: Name | StateSpec | None = None
    """A class of the registry, or a description; null for the state that the caller passes."""
    update: Name | None = None
    """Class of the updates; null for any mapping of the state's fields."""
    overwrite: bool = False
    """Whether every node returns the full next state."""
    reducer: Name | None = None
    """Reducer of the registry that folds updates into the whole state; null if fields have reducers."""
    input: Name | list[Name] | None = None
    """Class, or fields, that an input may have; null for all."""
    output: Name | list[Name] | None = None
    nodes: list[NodeSpec]
    edges: list[EdgeSpec] = []
    conditional_edges: list[ConditionalSpec] = []
    joins: list[JoinSpec] = []
    limits: LimitsSpec = LimitsSpec()
    allow: list[Name] = []
    """Findings of `compile()` to accept."""

    def to_data(self) -> dict[str, Any]:
        """Return the manifest as plain data, without omitted parts."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the manifest as JSON text, which `GraphBuilder.from_spec` reads."""
        import json

        return json.dumps(self.to_data(), indent=indent, ensure_ascii=False)

    def __str__(self) -> str:
        return self.to_json()
