"""Only these write the state of a run: the class that holds it, the verbs of the engine, and the applier of events.

All other code calls a method that names the change.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "graphrt"
VERBS = {"_engine/engine.py", "_engine/outcome.py", "_engine/committing.py"}  # begin, report, commit
OWNERS = {"_engine/run_state.py", "_engine/evolve.py", *VERBS}


def targets(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=found) | ast.Delete(targets=found):
            yield from found
        case ast.AugAssign(target=found) | ast.AnnAssign(target=found):
            yield found


def parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from parts(part)
    else:
        yield target


def is_of_an_engine(target: ast.expr) -> bool:
    """Whether the node is `engine.x`, `engine.x[...]`, or the same of an expression that ends in `.engine`."""
    while isinstance(target, ast.Subscript):
        target = target.value
    match target:
        case ast.Attribute(value=ast.Name(id="engine")) | ast.Attribute(value=ast.Attribute(attr="engine")):
            return True
        case _:
            return False


def writes(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    if "engine." not in text:  # most files: parsing takes two seconds
        return 0
    tree = ast.parse(text)
    found = [part for node in ast.walk(tree) for target in targets(node) for part in parts(target)]
    return sum(map(is_of_an_engine, found))


def test_no_other_code_writes_the_state_of_a_run() -> None:
    found = Counter({str(path.relative_to(PACKAGE)): writes(path) for path in PACKAGE.rglob("*.py")})
    others = {name: number for name, number in found.items() if number and name not in OWNERS}

    assert others == {}
