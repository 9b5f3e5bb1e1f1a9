"""The rules of the checker, in LangGraph's words: the problem, LangGraph's behaviour, and how to correct it there.

`RULES` is a table. A check calls `rule(...)` with the fields of its templates, and gets a `Finding`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from graphrt.compat.langgraph._read import Place

Level: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem, or possible problem, of a LangGraph graph."""

    code: str
    """Stable slug of the rule, for instance `starving-join`."""
    level: Level
    """`error`: failure or loss of data. `warning`: surprising behaviour. `note`: possible, or a matter of judgement."""
    proved: bool
    """Whether the graph and its source prove the finding. Otherwise it depends on what a router or a node returns."""
    message: str
    """The problem, with the names involved."""
    why: str
    """LangGraph's behaviour in this case."""
    fix: str
    """The change to make in the LangGraph program."""
    graph: str = ""
    """Path of the nested graph, as node names with `/` between them; empty for the graph itself."""
    node: str | None = None
    """The node that it is about; None if it is about the graph."""
    place: Place | None = None
    """The line of a node, a router, a `return`, or a call such as `add_edge`; None if Python does not know one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: templates of `str.format`."""

    code: str
    title: str
    """The title of the rule, for lists of rules."""
    level: Level
    what: str
    why: str
    fix: str

    def __call__(
        self,
        *,
        node: str | None = None,
        place: Place | None = None,
        proved: bool = True,
        guess: str = "",
        **fields: Any,
    ) -> Finding:
        """Return a finding. A finding that is not proved is a note.

        Args:
            node: Name of the node, which the templates may show.
            place: The location of the problem.
            proved: Whether it follows from the graph and its source.
            guess: The name that was probably meant; empty for none.
            **fields: The other fields of the templates.
        """
        fields["node"] = node
        hint = f"Did you mean {guess!r}? " if guess else ""
        return Finding(
            code=self.code,
            level=self.level if proved else "note",
            proved=proved,
            message=self.what.format(**fields),
            why=self.why.format(**fields),
            fix=hint + self.fix.format(**fields),
            node=node,
            place=place,
        )


def _rules(*rules: Rule) -> Mapping[str, Rule]:
    return {rule.code: rule for rule in rules}


RULES: Final = _rules(
    # ---- wiring that compile() of LangGraph refuses
    Rule(
        code="no-entry", level="error", title="No edge leads from START",
        what="No edge and no router leads from START to a node.",
        why="compile() raises ValueError.",
        fix="Call add_edge(START, node), set_entry_point(node) or set_conditional_entry_point(router).",
    ),
    Rule(
        code="unknown-node", level="error", title="An edge names a node that was never added",
        what="{edge} names {name!r}, which is not a node.",
        why="compile() raises ValueError.",
        fix="Correct the name, or add the node.",
    ),
    # ---- names that only a run looks up
    Rule(
        code="unknown-target", level="error", title="A router, a Command or a Send names a node that was never added",
        what="{who} can go to {name!r}, which is not a node.",
        why="LangGraph logs a warning and ignores the target: the branch ends there, and the run succeeds.",
        fix="Correct the name, or add the node.",
    ),
    Rule(
        code="unknown-route", level="error", title="A router returns a label that its path map lacks",
        what="{who} can return {label}, and its path map has no such label.",
        why="The run fails with {error} when the router returns it.",
        fix="Add the label to the path map, or let the router return one of {labels}.",
    ),
    Rule(
        code="undeclared-goto", level="warning", title="A Command goes to a node outside its annotation",
        what="Node {node!r} goes to {name!r}, and its annotation declares {declared} only.",
        why="LangGraph does not compare the two: the run goes there, and pictures of the graph lack the edge.",
        fix="Declare it: -> Command[Literal[...]] with {name!r}, or correct the goto.",
    ),
    Rule(
        code="undeclared-command", level="note", title="A node returns Commands and declares no targets",
        what="Node {node!r} goes to {names} by Command and declares no targets.",
        why="compile() cannot check these names, and pictures of the graph lack the edges.",
        fix="Annotate the node: -> Command[Literal[{names}]].",
    ),
    Rule(
        code="unread-annotation", level="warning", title="LangGraph cannot read an annotation and ignores it",
        what="The annotations of {who} cannot be resolved: {problem}.",
        why="LangGraph then ignores all of them without a word: {lost}.",
        fix="Import the name outside of `if TYPE_CHECKING:`, at module level, or pass {instead}.",
    ),
    Rule(
        code="unchecked-router", level="note", title="A router has neither a path map nor a Literal annotation",
        what="Nothing says where the router {router!r} of {source} leads.",
        why="compile() cannot check what it returns, a wrong name is a line in the log, and pictures show an edge to every "
        "node.",
        fix="Annotate it with -> Literal[...], or pass a path map to add_conditional_edges.",
    ),
    # ---- paths
    Rule(
        code="unreachable-node", level="error", title="A node can never run",
        what="Node {node!r} can never run: no edge, router or Command leads to it from START.",
        why="LangGraph compiles the graph and never runs the node.",
        fix="Add an edge to it, name it in a path map or in Command[Literal[...]], or remove it.",
    ),
    Rule(
        code="starving-join", level="error", title="A waiting edge can wait for ever",
        what="The waiting edge {edge} can starve: some choice of routes runs {runs!r} and not {skipped!r}.",
        why="LangGraph waits for all sources. If one is not chosen, {node!r} and all that follows never run, and the run "
        "succeeds without them.",
        fix="Wait only for nodes that always run together; or use plain edges and defer=True on {node!r}.",
    ),
    Rule(
        code="endless-loop", level="error", title="A loop has no way out",
        what="The loop {loop} has no way out.",
        why="The run continues to the recursion limit, 10,007 supersteps unless it is set, and then raises "
        "GraphRecursionError; every superstep is paid for.",
        fix="Put a conditional edge on the loop that can lead to END or to another node.",
    ),
    Rule(
        code="dead-route", level="warning", title="A path map has a label that its router never returns",
        what="The router {router!r} of {source} never returns {dead}: it returns {labels} only.",
        why="Pictures show edges that are never taken, and {targets} may never run.",
        fix="Remove the label from the path map, or let the router return it.",
    ),
    Rule(
        code="dead-end", level="note", title="A node leads nowhere",
        what="Nothing follows node {node!r}: it has no edge, no router and no Command.",
        why="LangGraph ends the branch there without a word, as if there were an edge to END.",
        fix="Add the edge that is missing, or add_edge({node!r}, END) to say that it ends there.",
    ),
    Rule(
        code="runs-twice", level="warning", title="A node runs once for each of two branches of different length",
        what="Node {node!r} runs twice: branches of different length lead to it, from {sources}.",
        why="Plain edges do not wait for each other. LangGraph runs {node!r} and all that follows once for each branch, the "
        "first time without what the longer branch writes.",
        fix="Wait for both: add_edge([{sources}], {node!r}), or add the node with defer=True.",
    ),
    Rule(
        code="edges-beside-goto", level="warning", title="A node has edges, and its Commands go somewhere else",
        what="Node {node!r} has {edges}, and its Commands go to {gotos}.",
        why="A goto does not replace the edges: LangGraph runs both.",
        fix="Remove the edge and name its target in the Command, or route by the edge alone.",
    ),
    # ---- state
    Rule(
        code="write-conflict", level="error", title="Several tasks of one superstep write one key without a reducer",
        what="{who} can run in one superstep, and write {keys}, which {has} no reducer.",
        why="The run fails with InvalidUpdateError: a key without a reducer takes one value in a superstep.",
        fix="Annotate the key with a reducer, such as Annotated[list, operator.add]; write different keys; or run the nodes "
        "one after the other.",
    ),
    Rule(
        code="unknown-key", level="error", title="A node writes a key that the state does not have",
        what="Node {node!r} writes {key!r}, which no schema of the graph has.",
        why="LangGraph drops the key without a word.",
        fix="Add the key to the state, or correct its name. Known: {known}.",
    ),
    Rule(
        code="unknown-read", level="error", title="A node reads a key that its input schema does not have",
        what="Node {node!r} reads {key!r}, which its input schema {schema} does not have.",
        why="LangGraph passes the keys of that schema alone: the node fails with KeyError{never}.",
        fix="Add the key to the schema, correct its name, or annotate the node with another schema. Known: {known}.",
    ),
    Rule(
        code="wrong-type", level="error", title="A node writes a value of another type",
        what="Node {node!r} writes {shown} to {key!r}, which is {wanted}.",
        why="{consequence}",
        fix="Write a value of the declared type, or correct the annotation.",
    ),
    Rule(
        code="ignored-reducer", level="error", title="A reducer stands where LangGraph does not look",
        what="The reducer {reducer} of {key!r} is ignored: it stands {place_of_it}.",
        why="LangGraph takes the last element of an Annotated that is the whole annotation. This key keeps the last value, "
        "and several writes in one superstep raise InvalidUpdateError.",
        fix="Write Annotated[<the whole type>, {reducer}].",
    ),
    Rule(
        code="changing-reducer", level="warning", title="A reducer changes its first argument",
        what="The reducer {reducer!r} of {key!r} changes its first argument in place.",
        why="That object is the value of the state: nodes and stream items that hold it see the change, and earlier values "
        "are lost.",
        fix="Return a new value: return [*left, *right] instead of left.extend(right).",
    ),
    Rule(
        code="empty-reducer", level="error", title="A reducer can return nothing",
        what="The reducer {reducer!r} of {key!r} can end without a return.",
        why="The value of the key becomes None.",
        fix="Return the new value on every way through the function.",
    ),
    Rule(
        code="lost-change", level="warning", title="A node changes the state and does not return the change",
        what="Node {node!r} changes {shown} in place and never returns {key!r}.",
        why="{consequence}",
        fix="Return the change: return {{{key!r}: ...}}.",
    ),
    Rule(
        code="doubled-values", level="error", title="A node returns a whole key whose reducer adds to it",
        what="Node {node!r} returns {what}, and the reducer of {keys} adds it to what is there.",
        why="The values double with each run of the node.",
        fix="Return only what is new.",
    ),
    Rule(
        code="doubled-by-subgraph", level="error", title="A subgraph returns a whole key whose reducer adds to it",
        what="The graph of node {node!r} is given {keys} and returns {it} whole, and the reducer adds {it} to what is there.",
        why="The values that the graph was given are there twice afterwards.",
        fix="Leave the key out of the output_schema of the inner graph, give it another name there, or use a reducer that "
        "knows its items, as add_messages does.",
    ),
    Rule(
        code="no-shared-keys", level="error", title="A subgraph has no key in common with its parent",
        what="The graph of node {node!r} has no key in common with the graph around it: {inner}.",
        why="LangGraph passes values by name: {lost}.",
        fix="Share a key, or call the graph in a function that maps the states.",
    ),
    # ---- interrupts, and the life of a graph
    Rule(
        code="caught-interrupt", level="error", title="A handler catches the exception of interrupt()",
        what="Node {node!r} calls interrupt() in a try whose handler in line {handler} catches Exception.",
        why="interrupt() pauses by raising GraphInterrupt. The handler catches it: the node continues, and nobody is asked.",
        fix="Call interrupt() outside of the try, or raise GraphBubbleUp again before other exceptions are handled.",
    ),
    Rule(
        code="late-node", level="error", title="A node was added after compile()",
        what="Node {node!r} was added after compile().",
        why="LangGraph logs a warning. The compiled graph does not have the node.",
        fix="Add it before compile(), or compile again.",
    ),
    Rule(
        code="compiles-once", level="note", title="The builder can be compiled only once",
        what="set_node_defaults(error_handler=...) is used, and the builder was compiled.",
        why="compile() adds a node to the builder. A second compile() of it raises ValueError.",
        fix="Make the builder in a function, and call it for each graph.",
    ),
)  # fmt: skip
"""All rules, by code."""
