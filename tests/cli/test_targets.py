"""A target that does not name a graph gives one clear line and code 2, before any node runs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize("target", ["flow:letters", "flow.py:letters", "flow:builder", "flow:runtime", "flow:make"])
def test_target_is_a_graph_or_a_function_that_builds_one(call, target: str) -> None:
    assert call("check", target).code == 0


def test_module_of_a_folder_is_found_next_to_its_file(call, folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "nearby.py").write_text("NAME = 'n'\n", encoding="utf-8")
    text = (folder / "flow.py").read_text(encoding="utf-8").replace("import time", "import time\nimport nearby")
    (inner / "other.py").write_text(text, encoding="utf-8")

    assert call("check", "inner/other.py:letters").code == 0


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nothing:graph", "there is no module 'nothing'"),
        ("nothing.py:graph", "there is no file 'nothing.py'"),
        ("flow:lettres", "Did you mean 'letters'?"),
        ("flow:number", "of the type int"),
        ("flow:makes", "a function that needs arguments"),
        ("flow", "the module has 'letters', 'fan', 'runtime'"),
        ("a b:graph", "that is not the name of a module"),
        (":graph", "that is not the name of a module"),
    ],
)
def test_wrong_target_is_reported_in_one_line(call, target: str, says: str) -> None:
    done = call("draw", target)

    assert (done.code, done.document["error"]["code"]) == (2, "bad-target")
    assert says in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import graphrt\n\ndef build():\n    raise RuntimeError('no \\x1b[31mkey')\n\nbuild()\n",
         "RuntimeError: no \x1b[31mkey (broken.py:4)"),
        ("import missing_thing\n", "ModuleNotFoundError: No module named 'missing_thing' (broken.py:1)"),
        ("x = (\n", "SyntaxError"),
        ("import sys\nsys.exit(7)\n", "SystemExit: 7 (broken.py:2)"),
        ("def f():\n    return f()\nf()\n", "RecursionError"),
    ],
)  # fmt: skip
def test_module_that_raises_is_reported_with_its_own_line(call, folder: Path, text: str, says: str) -> None:
    (folder / "broken.py").write_text(text, encoding="utf-8")

    done = call("draw", "broken:graph")

    assert (done.code, done.document["error"]["code"]) == (2, "target-not-imported")
    assert says in done.document["error"]["what"]
    assert "\x1b" not in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in call("draw", "broken:graph", "--debug").err


@pytest.mark.slow
def test_output_of_modules_and_nodes_goes_to_standard_error(program) -> None:
    done = program("run", "flow.py:letters", "--set", "topic=x")

    assert done.document["exit_code"] == 4
    assert "printed by the module" in done.err
    assert "printed by a node" in done.err


@pytest.mark.slow
def test_output_of_a_subprocess_of_a_module_goes_to_standard_error(program, folder: Path) -> None:
    """File descriptor 1 belongs to the command too, and is inherited by subprocesses."""
    (folder / "noisy.py").write_text(
        "import os\nos.system('echo from a shell')\nfrom flow import letters\n", encoding="utf-8"
    )

    done = program("check", "noisy:letters")

    assert done.document["exit_code"] == 0
    assert "from a shell" in done.err


def test_runtime_keeps_its_own_store(call) -> None:
    done = call("run", "flow.py:runtime", "--limits", "max_steps=1", "--store", "a.db")

    assert (done.code, done.document["error"]["code"]) == (2, "input")
    assert call("show", "flow.py:runtime", "t").document["error"]["code"] == "no-such-database"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--input", "none.json"], "bad-document"),
        (["--input", "bad.json"], "bad-document"),
        (["--input", "latin.json"], "bad-document"),
        (["--input", "list.json"], "bad-input"),
        (["--input", "deep.json"], "bad-document"),
        (["--input", "other.json"], "unknown-key"),
        (["--limits", "max_steps"], "bad-document"),
        (["--input", "twice.json"], "bad-document"),
        (["--input", "nan.json"], "bad-document"),
        (["--limits", "max_stepz=1"], "input"),
        (["--limits", "max_steps=many"], "bad-document"),
        (["--limits", "max_steps=-1"], "bad-limit"),
        (["--limits", "max_steps=1,max_steps=2"], None),
        (["--limits", "max_steps=1", "--limits", '{"max_steps": 2}'], None),
        (["--set", "topic=tea", "--set", "topic=b"], None),
        (["--store", "mongodb://x"], "unknown-store"),
        (["--deps", "nothing:deps"], "bad-target"),
    ],
)
def test_invalid_input_executes_no_node(call, folder: Path, words: list[str], code: str | None) -> None:
    for name, data in {
        "bad.json": b"{not json", "latin.json": b'{"topic": "\xe9"}', "list.json": b"[1]",
        "deep.json": b"[" * 100_000, "other.json": b'{"color": 1}',
        "twice.json": b'{"topic": 1, "topic": 2}', "nan.json": b'{"topic": NaN}',
    }.items():  # fmt: skip
        (folder / name).write_bytes(data)

    done = call("run", "flow.py:letters", *words)

    assert done.code == 2
    assert code is None or done.document["error"]["code"] == code
    assert "printed by a node" not in done.err
