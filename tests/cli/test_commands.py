"""Every command prints a document that matches its schema, and exits with the documented code."""

from __future__ import annotations

import json
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from graphrt import Runtime
from graphrt.cli.schema import RESULTS
from graphrt.errors._codes.databases import STORE_READ_ONLY


def test_check_lists_the_problems_of_a_graph(call, folder: Path) -> None:
    (folder / "wrong.py").write_text(
        "from typing import TypedDict\nfrom graphrt import START, GraphBuilder\n"
        "class S(TypedDict, total=False):\n    n: int\n"
        "g = GraphBuilder(S, name='wrong')\ng.add_node('a', lambda s: {})\n"
        "g.add_edge(START, 'a')\ng.add_edge('a', 'b')\ngraph = g.compile()\n",
        encoding="utf-8",
    )

    done = call("check", "flow.py:letters", "wrong.py:graph")
    good, bad = done.result["targets"]

    assert done.code == 1
    assert (good["graph"], good["nodes"], good["problems"]) == ("letters", 2, [])
    assert [one["code"] for one in bad["problems"]] == ["unknown-node"]
    assert bad["problems"][0]["where"] == "wrong.py:8"
    assert "[unknown-node]" in call("check", "wrong.py:graph", "-otext").out


def test_check_writes_sarif(call, folder: Path) -> None:
    (folder / "wrong.py").write_text(
        "from typing import TypedDict\nfrom graphrt import START, GraphBuilder\n"
        "class S(TypedDict, total=False):\n    n: int\n"
        "g = GraphBuilder(S, name='wrong')\ngraph = g\n",
        encoding="utf-8",
    )

    done = call("check", "wrong.py:graph", "--sarif")
    (run,) = json.loads(done.out)["runs"]

    assert done.code == 1
    assert {one["ruleId"] for one in run["results"]} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert [one["ruleId"] for one in run["results"]] == ["no-entry"]


def test_check_reports_whether_threads_can_continue(call, stored: str) -> None:
    (checked,) = call("check", "flow.py:letters", "--store", stored).result["targets"]

    assert [(one["thread"], one["ok"]) for one in checked["threads"]] == [("paused", True)]


@pytest.mark.parametrize(
    ("form", "begins"),
    [("terminal", "  ○ START"), ("mermaid", "flowchart TD"), ("dot", "digraph"), ("json", "{"), ("svg", "<svg")],
)
def test_draw_writes_every_format(call, folder: Path, form: str, begins: str) -> None:
    done = call("draw", "flow.py:fan", "--format", form, "-otext")

    assert done.code == 0
    assert done.out.startswith(begins)
    assert call("draw", "flow.py:fan", "-f", form, "-ojson").result["topology"]["nodes"]
    for out in ("picture", "picture"):  # an earlier drawing is replaced
        assert call("draw", "flow.py:fan", "-f", form, "--out", out, "-otext").code == 0
    assert (folder / "picture").read_text(encoding="utf-8").strip() == done.out.strip()


def test_svg_shows_every_node(call) -> None:
    root = ET.fromstring(call("draw", "flow.py:fan", "-f", "svg", "-otext").out)
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}

    assert {"START", "END", "work", "report"} <= texts


def test_run_shows_its_outcome(call) -> None:
    done = call("run", "flow.py:fan", "--thread", "t")

    assert done.code == 0
    assert done.result["status"] == "completed"
    assert done.result["state"]["notes"] == [0, 1, 2, 3]
    assert done.result["visited"] == {"work": 1, "report": 1}
    assert "printed by the module" in done.err


def test_run_reads_its_input_from_a_file(call, folder: Path) -> None:
    (folder / "input.json").write_text('{"topic": "dogs"}', encoding="utf-8")

    done = call("run", "flow.py:letters", "--input", "input.json", "--store", "a.db")

    assert done.code == 4
    assert done.result["interrupts"][0]["payload"] == {"draft": "about dogs"}
    assert done.result["interrupts"][0]["answer_schema"]["properties"]["do"]["enum"] == ["send", "drop"]


TALLY = """
from typing import TypedDict
from graphrt import START, GraphBuilder

class Tally(TypedDict):
    n: int

g = GraphBuilder(Tally, int, reducer=lambda state, number: {"n": state["n"] + number})
tally = g.add_node("one", lambda state: 1).add_edge(START, "one").compile()
"""


def test_run_takes_an_update_of_any_type_for_a_finished_thread(call, folder: Path) -> None:
    (folder / "tally.py").write_text(TALLY)
    (folder / "first.json").write_text('{"n": 5}')
    (folder / "second.json").write_text("10")
    (folder / "third.json").write_text("[10]")
    where = ["run", "tally.py:tally", "--store", "a.db", "--thread", "t", "--input"]
    found = [call(*where, f"{name}.json").result["state"]["n"] for name in ("first", "second")]
    refused = call(*where, "third.json")

    assert found == [6, 17]
    assert refused.document["error"]["code"] == "bad-input"


def test_run_with_if_exists_return_runs_no_node_twice(call, stored: str) -> None:
    again = call("run", "flow.py:fan", "--store", stored, "--thread", "done", "--if-exists", "return")

    assert (again.code, again.result["state"]["notes"]) == (0, [0, 1, 2, 3])


def test_failed_run_can_be_retried(call) -> None:
    failed = call("run", "flow.py:letters", "--set", "topic=fail", "--store", "a.db", "--thread", "t")

    assert failed.code == 1
    assert failed.document["error"]["code"] == "node-failed"
    assert failed.result["status"] == "failed"
    assert "flow.py:" in failed.err.partition("  Raised at ")[2]
    assert call("retry", "flow.py:letters", "t", "--store", "a.db").code == 1


BATCH = """
from typing import Annotated, Any, TypedDict
from graphrt import START, END, Context, GraphBuilder, Limits, Send
from graphrt.harness import Agent, ScriptedModel
from graphrt.reducers import append

class State(TypedDict, total=False):
    notes: Annotated[list[str], append]

async def ask(state: State, ctx: Context) -> dict[str, Any]:
    return {"notes": [(await ctx.harness.run("Say.")).text]}

g = GraphBuilder(State, name="batch")
g.add_node("ask", ask)
g.set_conditional_entry(lambda state: [Send("ask", n) for n in range(4)], ["ask"])
g.add_edge("ask", END)
batch = g.compile(limits=Limits(max_concurrency=1))
agent = Agent(ScriptedModel(["one", "two", "three"]))
"""


def test_run_that_a_budget_stops_and_show_report_how_many_tasks_are_done(call, folder: Path) -> None:
    (folder / "batch.py").write_text(BATCH)
    where = ["batch.py:batch", "--store", "a.db"]
    stopped = call("run", *where, "--thread", "t", "--harness", "batch.py:agent", "--budget", "calls=3")

    assert (stopped.code, stopped.result["tasks"]) == (5, {"done": 3, "total": 4})
    assert "3 of 4 tasks done" in call("show", "batch.py:batch", "t", "--store", "a.db", "--output", "text").out


def test_limits_end_a_run_with_their_exit_code(call) -> None:
    done = call("run", "flow.py:fan", "--limits", "max_steps=1", "--store", "a.db", "--thread", "t")

    assert (done.code, done.document["error"]["code"]) == (5, "step-limit")


def test_resume_takes_an_answer(call, stored: str) -> None:
    done = call("resume", "flow.py:letters", "paused", "--store", stored, "--answer", '{"do": "send"}')

    assert done.code == 0
    assert done.result["state"]["verdict"] == {"do": "send", "remark": ""}


def test_resume_takes_answers_from_a_file(call, stored: str, folder: Path) -> None:
    (question,) = call("show", "flow.py:letters", "paused", "--store", stored).result["interrupts"]
    (folder / "answers.json").write_text(json.dumps({question["id"]: {"do": "drop"}}), encoding="utf-8")

    assert call("resume", "flow.py:letters", "paused", "--store", stored, "--answers", "answers.json").code == 0


def test_resume_without_a_person_changes_nothing(call, stored: str) -> None:
    done = call("resume", "flow.py:letters", "paused", "--store", stored, "--no-input")

    assert (done.code, done.document["error"]["code"]) == (4, "no-person")
    assert call("show", "flow.py:letters", "paused", "--store", stored).result["status"] == "interrupted"


def test_resume_refuses_an_invalid_answer(call, stored: str) -> None:
    done = call("resume", "flow.py:letters", "paused", "--store", stored, "--answer", '{"do": "burn"}')

    assert (done.code, done.document["error"]["code"]) == (2, "bad-answer")


def test_threads_are_listed_and_filtered(call, stored: str) -> None:
    assert [one["thread"] for one in call("threads", "--store", stored).result["threads"]] == ["paused", "done"]
    one = call("threads", "--store", stored, "--status", "completed").result["threads"]
    assert [(found["thread"], found["graph"]) for found in one] == [("done", "fan")]


@pytest.mark.parametrize("command", [["threads"], ["inbox"], ["sweep", "--older-than", "0s", "--dry-run"]])
def test_lists_take_the_store_or_a_graph_like_other_commands(call, stored: str, command: list[str]) -> None:
    """`threads runs.db` and `threads flow.py:fan --store runs.db`, like `show`."""
    name, *more = command
    everything = call(name, "--store", stored, *more).result
    key = "questions" if name == "inbox" else "threads"

    assert everything[key]
    assert call(name, stored, *more).result == everything
    assert [one["graph"] for one in call(name, "flow.py:letters", "--store", stored, *more).result[key]] == [
        one["graph"] for one in everything[key] if one["graph"] == "letters"
    ]
    assert call(name, stored, "--store", stored, *more).code == 2


def test_bare_word_answer_is_refused_with_advice_on_quoting(call, stored: str) -> None:
    done = call("resume", "flow.py:letters", "paused", "--store", stored, "--answer", "yes")

    assert done.document["error"]["code"] == "bad-document"
    assert """'"yes"'""" in done.document["error"]["fix"]


def test_show_has_the_state_and_its_history(call, stored: str) -> None:
    done = call("show", "flow.py:letters", "paused", "--store", stored, "--history")

    assert done.result["next"] == ["approve"]
    assert [one["seq"] for one in done.result["history"]] == [5, 3, 1]
    assert call("show", "flow.py:letters", "paused", "--store", stored, "--at", "1").result["state"]["notes"] == []


def test_log_has_every_entry(call, stored: str) -> None:
    entries = call("log", "flow.py:letters", "paused", "--store", stored).result["entries"]

    assert [one["event"] for one in entries] == [
        "run-started", "task-succeeded", "superstep-committed", "interrupt-raised", "run-interrupted",
    ]  # fmt: skip
    some = call("log", "flow.py:letters", "paused", "--store", stored, "--event", "task-succeeded", "--limit", "1")
    assert [one["seq"] for one in some.result["entries"]] == [2]


def test_suggested_commands_can_be_typed_as_shown(call, stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forked = call("fork", "flow.py:letters", "paused", "--at", "1", "--to", "b", "--store", stored, "-otext")
    told = "continue with: graphrt retry flow.py:letters b --store runs.db"
    assert told in forked.out
    assert call(*shlex.split(told.partition("graphrt ")[2])).result["status"] == "interrupted"

    monkeypatch.setenv("GRAPHRT_STORE", "runs.db")  # the next command has it too
    forked = call("fork", "flow.py:letters", "paused", "--to", "c", "-otext")
    assert forked.out.endswith("continue with: graphrt resume flow.py:letters c\n")


def test_log_refuses_an_unknown_kind_of_event(call, stored: str) -> None:
    done = call("log", "flow.py:letters", "paused", "--event", "task-succeded", "--store", stored)

    assert (done.code, done.document["error"]["code"]) == (2, "input")
    assert "Did you mean 'task-succeeded'?" in done.err


@pytest.mark.parametrize(
    "words", [["draw", "flow.py:fan", "--out"], ["audit", "export", "runs.db", "paused"]], ids=["draw", "audit"]
)
def test_unwritable_file_is_reported(call, stored: str, words: list[str]) -> None:
    for place in (".", "/", "none/file"):
        done = call(*words, place)

        assert (done.code, done.document["error"]["code"]) == (2, "bad-path")
        assert "cannot be written: " in done.err


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["draw", "flow.py:fan", "--format", "svg", "--out", "flow.py"], "flow.py"),
        (["show", "runs.db", "paused", "--html", "runs.db"], "runs.db"),
        (["audit", "export", "runs.db", "paused", "runs.db"], "runs.db"),
        (["audit", "export", "runs.db", "paused", "done.log"], "done.log"),
        (["worker", "flow.py:fan", "--store", "runs.db", "--health-file", "runs.db"], "runs.db"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else words,
)
def test_file_of_another_kind_is_not_overwritten(call, stored: str, folder: Path, words: list[str], file: str) -> None:
    call("audit", "export", stored, "done", "done.log")
    before = (folder / file).read_bytes()
    done = call(*words)

    assert (done.code, done.document["error"]["code"]) == (2, "path-exists"), done.err
    assert (folder / file).read_bytes() == before


def test_fork_diff_and_cancel(call, stored: str) -> None:
    made = call("fork", "flow.py:letters", "paused", "--store", stored, "--at", "5", "--to", "other")
    assert made.result == {"thread": "other", "source": "paused", "status": "interrupted", "next": ["approve"]}

    call("fork", "flow.py:letters", "paused", "--store", stored, "--at", "3", "--to", "shorter")
    differ = call("diff", "flow.py:letters", "paused", "shorter", "--store", stored)
    same = call("diff", "flow.py:letters", "paused", "paused", "--store", stored)
    assert (differ.code, differ.result["same"], same.code, same.result["same"]) == (1, False, 0, True)

    assert call("cancel", "flow.py:letters", "other", "--store", stored).result["cancelled"] is True
    assert call("cancel", "flow.py:letters", "other", "--store", stored).code == 1


def test_why_traces_a_field_to_the_input(call, stored: str) -> None:
    found = call("why", "flow.py:letters", "paused", "notes", "--store", stored).result

    assert found["writes"] == [1, 2]
    assert found["all"][0]["node"] == "write"


def test_usage_sums_all_threads_of_the_graph(call, stored: str) -> None:
    found = call("usage", "flow.py:fan", "--store", stored).result

    assert (found["threads"], found["total"]["calls"], found["by_node"]) == (["done"], 0, {})


def test_backup_export_and_import(call, stored: str) -> None:
    assert call("backup", "copy.db", "--store", stored).code == 0
    assert call("backup", "copy.db", "--store", stored).code == 2
    assert call("export", "copy.db", "done", "done.thread").code == 0
    assert call("import", "new.db", "done.thread", "--thread", "moved").result["thread"] == "moved"
    assert [one["thread"] for one in call("threads", "--store", "new.db").result["threads"]] == ["moved"]


def test_sweep_lists_before_it_deletes(call, stored: str) -> None:
    dry = call("sweep", "--store", stored, "--older-than", "0s", "--dry-run").result
    assert ([one["thread"] for one in dry["threads"]], dry["deleted"]) == (["done"], 0)
    assert call("sweep", "--store", stored, "--older-than", "1h").result["deleted"] == 0
    assert call("sweep", "--store", stored, "--older-than", "0s").result["deleted"] == 1
    assert call("sweep", "--store", stored, "--older-than", "soon").code == 2


def test_audit_creates_a_key_exports_verifies_and_shows(call, stored: str, folder: Path) -> None:
    assert call("audit", "keygen", "key").result["bytes"] == 32
    assert (folder / "key").stat().st_mode & 0o777 == 0o600
    assert call("audit", "keygen", "key").code == 2
    call("audit", "export", stored, "done", "log.jsonl")
    head = call("audit", "export", stored, "done", "log.jsonl").result["head"]  # replaces the earlier export
    report = call("audit", "verify", "log.jsonl")
    assert (report.code, report.result["verdict"]) == (0, "unanchored")
    assert call("audit", "verify", "log.jsonl", "--strict").code == 1
    (folder / "heads").write_text(json.dumps({"head": head}, sort_keys=True, separators=(",", ":")) + "\n", "utf-8")
    assert call("audit", "verify", "log.jsonl", "--anchor", "heads", "--strict").result["verdict"] == "sound"
    lines = call("audit", "show", "log.jsonl").result["lines"]
    assert [one["kind"] for one in lines][-2:] == ["record", "head"]
    assert lines[-2]["last"] == head["seq"]
    call("audit", "export", stored, "paused", "paused.jsonl")
    staged = [one for one in call("audit", "show", "paused.jsonl").result["lines"] if one["kind"] == "staged"]
    assert len(staged) == 1
    assert staged[0]["told"]


def test_audit_verify_detects_a_changed_log(call, stored: str, folder: Path) -> None:
    call("audit", "export", stored, "done", "log.jsonl")
    path = folder / "log.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("4 notes", "5 notes"), encoding="utf-8")

    done = call("audit", "verify", "log.jsonl")

    assert (done.code, done.result["verdict"]) == (3, "altered")


def test_audit_replay_folds_again(call, stored: str) -> None:
    assert call("audit", "replay", "flow.py:fan", "done", "--store", stored).result["status"] == "completed"


def test_keyed_thread_continues_with_its_key(call) -> None:
    call("audit", "keygen", "key")
    run = ["run", "flow.py:letters", "--set", "topic=x", "--store", "k.db", "--thread", "t", "--key-file", "key"]
    assert call(*run).code == 4
    resume = ["resume", "flow.py:letters", "t", "--store", "k.db", "--answer", '{"do": "send"}']
    assert call(*resume).document["error"]["code"] == "log-key-needed"
    assert call(*resume, "--key-file", "key").code == 0
    assert call("audit", "export", "k.db", "t", "t.jsonl", "--key-file", "key").code == 0
    assert call("audit", "verify", "t.jsonl", "--key-file", "key").code == 0


@pytest.mark.parametrize("command", [["threads"], ["run", "flow.py:letters", "--set", "topic=x", "--thread", "t"]])
def test_connection_string_is_refused_and_not_shown(call, command: list[str]) -> None:
    done = call(*command, "--store", "host=h password=sesame")

    assert done.document["error"]["code"] == "unknown-store"
    assert "sesame" not in str(done.document)


def test_doctor_checks_the_installation_and_the_database(call, stored: str) -> None:
    found = call("doctor", "--store", stored, "--replay", "flow.py:fan")

    assert found.code == 0
    assert found.result["database"] | {"entries": 0} == {
        "ok": True, "threads": 2, "entries": 0, "damaged": [], "findings": [], "builds": [],
    }  # fmt: skip
    assert found.result["extras"]["cli"]["click"]


def test_test_kit_is_run_by_its_command_names(call) -> None:
    assert "--report" in call("routes", "--help").out
    assert "mutants" in call("mutate", "--help").out
    assert call("routes", "none.json").code == 2


@pytest.mark.parametrize("command", RESULTS)
def test_schema_prints_the_schema_of_every_command(call, command: str) -> None:
    assert json.loads(call("schema", *command.split()).out)["title"] == f"graphrt {command}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_a_script_for_every_shell(call, shell: str) -> None:
    assert "_GRAPHRT_COMPLETE" in call("completion", shell).out


def test_thread_is_shown_without_its_code(call, stored: str, folder: Path) -> None:
    whole = call("show", "flow.py:letters", "paused", "--store", stored).result
    (folder / "flow.py").unlink()

    shown = call("show", stored, "paused").result

    logged = call("log", f"sqlite:///{stored}", "paused").result["entries"]

    assert {name: shown[name] for name in ("status", "seq", "next", "run", "superstep", "error")} == {
        name: whole[name] for name in ("status", "seq", "next", "run", "superstep", "error")
    }
    assert [one["id"] for one in shown["interrupts"]] == [one["id"] for one in whole["interrupts"]]
    assert (shown["state"]["topic"], shown["state"]["notes"]) == ("cats", ["about cats"])
    assert [one["seq"] for one in logged] == list(range(1, whole["seq"] + 1))
    assert "reducers were not applied" in call("show", stored, "paused", "-otext").out.replace("\n", " ")


def test_failed_thread_is_shown_as_text_without_its_code(call, stored: str) -> None:
    call("run", "flow.py:letters", "--set", "topic=fail", "--store", stored, "--thread", "failed")

    shown = call("show", stored, "failed", "-otext")

    assert shown.code == 0
    assert "no such topic" in shown.out


def test_refused_resume_suggests_to_resume_again(call, stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object, **_options: object) -> None:
        raise STORE_READ_ONLY(doing="write", reason="the disk is read-only", sqlstate="")

    monkeypatch.setattr(Runtime, "stream", refused)
    answer = '{"do": "send"}'
    done = call("resume", "flow.py:letters", "paused", "--store", stored, "--answer", answer, "-otext")

    assert done.code == 1
    assert "continue with: graphrt resume flow.py:letters paused" in done.out
    assert "graphrt retry" not in done.out


def test_resume_does_not_retry_a_failed_thread(call, stored: str) -> None:
    call("run", "flow.py:letters", "--set", "topic=fail", "--store", stored, "--thread", "failed")

    refused = call("resume", "flow.py:letters", "failed", "--store", stored)

    assert refused.code == 2
    assert "cannot be resumed" in refused.document["error"]["what"]


def test_store_as_target_is_refused_where_the_graph_is_needed(call, stored: str) -> None:
    for words in (["why", stored, "paused", "notes"], ["resume", stored, "paused", "--answer", "1"]):
        assert "needs the graph of the thread" in call(*words).document["error"]["what"]
    assert call("show", stored, "paused", "--at", "1").code == 2
    assert call("show", stored, "paused", "--store", stored).code == 2
    assert call("show", "none.db", "paused").document["error"]["code"] == "no-such-database"
