"""Errors are raised from declarations, and every call of one passes exactly the fields of its templates."""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import pickle
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import graphrt.errors._codes as codes
from graphrt import errors
from graphrt.errors import GraphrtError, InputError, Problem
from graphrt.errors._error_code import ErrorCode, Finding, fill

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
OVERRIDES = {"where", "known", "fix", "boundary"}

CLASSES = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, GraphrtError)}
JUDGED = {"UNREACHABLE_NODE", "NO_WAY_OUT", "STARVING_JOIN", "WRITE_CONFLICT", "ENDLESS_LOOP", "DELETED_SOURCE"}
"""Names that are also listed as findings of the graph analysis, and are called where they are found."""

CHOSEN = re.compile(r"declared|(self\.)?finding|_DECLARED\[.+\]")
"""Names of variables that hold one of several declarations."""

Declaration = ErrorCode[GraphrtError] | Finding


OF_OTHER_CLASSES = ["graphrt.harness.agent.middleware", "graphrt.harness.tools.results"]
"""Modules beside `_codes` that declare errors: those of a private class that is defined there."""


def declarations() -> dict[str, Declaration]:
    found: dict[str, Declaration] = {}
    modules = [f"{codes.__name__}.{info.name}" for info in pkgutil.iter_modules(codes.__path__)]
    for module in map(importlib.import_module, [*modules, *OF_OTHER_CLASSES]):
        for name, value in vars(module).items():
            if isinstance(value, ErrorCode | Finding):
                assert found.setdefault(name, value) is value, f"two declarations are named {name}"
    return found


DECLARED = declarations()


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def templates(declared: Declaration) -> dict[str, str]:
    parts = {"what": declared.what, "fix": declared.fix}
    return parts if isinstance(declared, Finding) else parts | {"known": declared.known, "where": declared.where}


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """All modules of the package, parsed once; collections of garbage would take twice as long as that."""
    gc.disable()
    try:
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SRC.rglob("*.py"))}
    finally:
        gc.enable()


def sources() -> dict[str, ast.Module]:
    """The modules of the package, without the declarations themselves, by path."""
    return {str(path.relative_to(SRC)): tree for path, tree in trees().items() if "_codes" not in path.parts}


@functools.cache
def walked(tree: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes of a tree, which each test visits."""
    return tuple(ast.walk(tree))


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in walked(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DECLARED:
            yield node.func.id, node


def chosen(tree: ast.AST) -> tuple[list[str], list[ast.Call]]:
    """The declarations that code passes on without calling them, and the calls of passed declarations."""
    nodes = walked(tree)
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    read = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    names = [
        node.id
        for node in nodes
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id in DECLARED
        and id(node) not in called | read
    ]
    passed = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and not node.args and CHOSEN.fullmatch(ast.unparse(node.func))
    ]
    return names, passed


def wrong(name: str, call: ast.Call) -> str:
    """The missing or superfluous fields of a call of the declaration *name*; empty if it matches."""
    declared = DECLARED[name]
    given = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
    used = [text for part, text in templates(declared).items() if part not in given]
    needed = set().union(*map(fields, used))
    # A field that the call replaces is not required, unless the replacement may be None.
    allowed = set().union(*map(fields, templates(declared).values())) | OVERRIDES | {"guess"}
    attributes = {"node"} if isinstance(declared, Finding) else declared.error._data_attributes
    missing = needed - given
    extra = given - allowed - attributes
    said = [f"lacks {sorted(missing)}"] * bool(missing) + [f"has no {sorted(extra)}"] * bool(extra)
    return f"{name}() in line {call.lineno} {' and '.join(said)}" if said or call.args else ""


@pytest.mark.slow
def test_calls_pass_exactly_the_fields_of_their_declaration() -> None:
    found = [
        f"{path}: {text}"
        for path, tree in sources().items()
        for name, call in calls(tree)
        if (text := wrong(name, call))
    ]

    assert found == []


@pytest.mark.slow
def test_declarations_that_are_chosen_before_they_are_called_match_a_call() -> None:
    found = [chosen(tree) for tree in sources().values()]
    names = {name for names, _ in found for name in names}
    passed = [call for _, calls in found for call in calls]

    assert [ast.unparse(call) for call in passed if all(wrong(name, call) for name in names)] == []
    assert [name for name in sorted(names) if name not in JUDGED and all(wrong(name, call) for call in passed)] == []


def in_full(tree: ast.AST) -> Iterator[int]:
    """The lines where an error is built from its class, with its text at the raising place."""
    for node in walked(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in CLASSES:
                yield node.lineno
            case _:
                pass


@pytest.mark.slow
def test_errors_are_raised_from_declarations() -> None:
    found = [
        f"{path}:{line}"
        for path, tree in sources().items()
        if not path.startswith("graphrt/errors/")
        for line in in_full(tree)
    ]

    assert found == []


@pytest.mark.parametrize("source", ["raise InputError('x')", "return errors.StoreError('x', code='y')"])
def test_errors_that_are_raised_in_full_are_detected(source: str) -> None:
    assert list(in_full(ast.parse(source))) == [1]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("UNKNOWN_SCHEDULE(name=o, names=p)", ""),
        ("UNKNOWN_SCHEDULE(name=o, known='')", ""),
        ("UNKNOWN_SCHEDULE(name=o)", "UNKNOWN_SCHEDULE() in line 1 lacks ['names']"),
        ("UNKNOWN_SCHEDULE(name=o, names=p, o=1)", "UNKNOWN_SCHEDULE() in line 1 has no ['o']"),
        ("DEFINITION(who=w, where=w)", "DEFINITION() in line 1 lacks ['problems']"),
        ("UNKNOWN_SCHEDULE(name=o, names=p, thread=t)", ""),
        ("UNREACHABLE_NODE(where=w)", "UNREACHABLE_NODE() in line 1 lacks ['node']"),
        ("UNREACHABLE_NODE(node=n)", ""),
    ],
)
def test_check_of_calls_detects_mistakes(source: str, text: str) -> None:
    [(name, call)] = calls(ast.parse(source))

    assert wrong(name, call) == text


@pytest.mark.slow
def test_every_declaration_is_raised_somewhere() -> None:
    used = {
        node.id
        for tree in sources().values()
        for node in walked(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    bases = {
        node.func.value.id
        for path, tree in trees().items()
        if "_codes" in path.parts
        for node in walked(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    }

    assert sorted(DECLARED.keys() - used - bases) == []


@pytest.mark.slow
def test_code_is_declared_once_and_its_other_texts_are_variants() -> None:
    declared: Counter[tuple[str, str]] = Counter()
    for tree in trees().values():
        for node in walked(tree):
            match node:
                case ast.Call(
                    func=ast.Name(id=("ErrorCode" | "Finding") as kind), args=[ast.Constant(value=str() as code), *_]
                ):
                    declared[kind, code] += 1
                case _:
                    pass

    assert [key for key, times in declared.items() if times > 1] == []


def test_code_has_a_second_text_only_if_the_caller_has_to_act_differently() -> None:
    names: dict[tuple[object, ...], list[str]] = {}
    for name, declared in DECLARED.items():
        if declared.fix and not fields(declared.fix):  # a fix with fields tells each caller a different action
            kind = Finding if isinstance(declared, Finding) else declared.error
            names.setdefault((declared.code, kind, declared.fix), []).append(name)

    assert [same for same in names.values() if len(same) > 1] == []


@pytest.mark.slow
def test_base_text_of_variants_is_named_after_the_code() -> None:
    parents = {
        (node.func.value.id, DECLARED[node.func.value.id].code.upper().replace("-", "_"))
        for path, tree in trees().items()
        if "_codes" in path.parts
        for node in walked(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "variant"
        and isinstance(node.func.value, ast.Name)
    }

    assert [name for name, code in sorted(parents) if not name.startswith(code)] == ["INVALID_ARGUMENT"]  # code "input"


def test_fields_of_templates_are_plain_names_without_other_meanings_in_a_call() -> None:
    odd = [
        (name, field)
        for name, declared in DECLARED.items()
        for template in templates(declared).values()
        for _, field, spec, _ in Formatter().parse(template)
        if field is not None and (not field.isidentifier() or field in {*OVERRIDES, "guess"} or "{" in (spec or ""))
    ]

    assert odd == []


def test_errors_of_declarations_have_their_class_code_and_attributes_and_survive_pickling() -> None:
    for declared in DECLARED.values():
        if isinstance(declared, Finding):
            continue
        given = dict.fromkeys({"values"}.union(*map(fields, templates(declared).values())), (7,))

        error = declared(**given)

        assert (type(error), error.code) == (declared.error, declared.code)
        assert all(getattr(error, field) == (7,) for field in given.keys() & declared.error._data_attributes)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


class Broken:
    def __repr__(self) -> str:
        raise ValueError


FILL = ErrorCode("input", InputError, "{one!r} {two:names}", fix="{three:is|are} {four:a_type}")


def test_error_does_not_lose_a_field() -> None:
    error = FILL(one=Broken(), three=object())

    assert (error.what, error.fix) == ("<Broken> {two}", "<object> {four}")


def test_call_overrides_the_lines_of_its_declaration() -> None:
    given = {"one": 1, "two": ["a", "b"], "three": 2, "four": 1.5, "values": (1,)}

    assert (FILL(**given).what, FILL(**given).fix, FILL(**given).values) == ("1 'a', 'b'", "are a float", (1,))
    assert FILL(**given, fix="other", known="k", where="w").fix == "other"
    assert FILL(**given, guess="name").fix == "Did you mean 'name'?"
    assert FILL(**given, fix=None).fix == "are a float"


def test_fields_that_are_attributes_become_attributes_of_the_error() -> None:
    error = FILL.variant("Thread {thread!r} of {other}.", where="thread {thread!r}")(thread="t", other=1)

    assert (error.thread, error.where, vars(error).get("other")) == ("t", "thread 't'", None)


def test_a_variant_keeps_code_and_class_unless_it_names_another() -> None:
    error = FILL.variant("x")(values=1)

    assert (type(error), error.code, error.what, error.fix, error.values) == (InputError, "input", "x", "", 1)
    assert FILL.variant("x", error=GraphrtError)().__class__ is GraphrtError


def test_a_variant_has_the_place_of_its_code_unless_it_names_another() -> None:
    code = ErrorCode("input", InputError, "x", where="field {field!r}", boundary=True)

    error = code.variant("y")(field="f", values=1)

    assert (error.where, error.values, vars(error).get("boundary")) == ("field 'f'", 1, True)
    assert vars(code.variant("z", where="", boundary=False)()).keys() == vars(InputError("z")).keys()


def test_model_of_an_error_is_in_its_place_unless_the_first_line_names_it() -> None:
    code = ErrorCode("input", InputError, "{problem}.")

    assert code(problem="The call failed", model="m", thread="t").where == "model 'm', thread 't'"
    assert code(problem="Model 'm' failed", model="m").where == ""


def test_finding_makes_a_problem() -> None:
    found = Finding("unknown-node", "Node {node!r} has {number:one route|many routes}.", fix="Add {noun:a}.")

    assert fill("{{x}} {n:,}", {"n": 1234}) == "{x} 1,234"
    assert found.variant("{node}", fix="It is {a_b:a}.")(node="n", a_b="edge", where="f:1") == Problem(
        code="unknown-node", message="n", node="n", hint="It is an edge.", where="f:1"
    )
