"""The viewer over HTTP: documents for callers with the right to read, and no writes by viewing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.serve import Caller, LoopbackAccess, app
from graphrt.stores import TenantStore, open_store
from graphrt.viewer import app as viewer_app
from graphrt.viewer._library import Library
from graphrt.viewer._threads import Threads
from graphrt.viewer._values import Bounds

from . import graphs
from .conftest import HERE, check, failed_letter

Q = "graph=desk&thread=letter"
SMALL = Bounds(value=1_000)
GETS = {
    "head": "Head",
    "graph?graph=desk": "GraphDoc",
    "threads": "ThreadsPage",
    "inbox": "InboxPage",
    f"thread?{Q}": "ThreadDoc",
    f"rows?{Q}&from=2&limit=3": "RowsPage",
    f"entries?{Q}&after=3&limit=4": "EntriesPage",
    f"state?{Q}&at=8": "StateDoc",
    f"call?{Q}&seq=22": "CallDoc",
    f"prompt?{Q}&seq=22": "PromptDoc",
    f"conversation?{Q}": "ConversationDoc",
    f"compare?{Q}&other=waiting": "CompareDoc",
    f"audit?{Q}": "AuditDoc",
    f"case?{Q}&at=34": "CaseDoc",
}
"""Requests for documents."""


def test_every_document_is_served_as_declared(letters: Runtime[Any, Any], viewer: Callable[..., Any]) -> None:
    client = viewer(letters, prompts=True)
    found: dict[str, Any] = {}
    for path, name in GETS.items():
        answer = client.get(f"/api/{path}", headers=HERE)
        assert answer.status_code == 200, (path, answer.text)
        assert answer.content.isascii()
        found[name] = check(answer.json(), name)

    assert client.get(f"/api/prompt?{Q}&seq=22").status_code == 403, "a page elsewhere cannot have nodes run"
    assert [one["thread"] for one in found["ThreadsPage"]["threads"]] == ["waiting", "letter"]
    assert [check(one, "ThreadRow")["status"] for one in found["ThreadsPage"]["threads"]] == ["interrupted", "failed"]
    assert found["ThreadsPage"]["threads"][1]["error"].startswith("NodeError: Node 'file' failed")
    assert found["ThreadsPage"]["threads"][1]["tokens"] > 0
    assert [(check(one, "InboxRow")["node"], one["kind"]) for one in found["InboxPage"]["questions"]] == [
        ("write", "approval")
    ]
    assert [row["n"] for row in found["RowsPage"]["rows"]] == [2, 3, 4]
    assert [one["seq"] for one in found["EntriesPage"]["entries"]] == [4, 5, 6, 7]
    assert found["EntriesPage"]["more"]
    assert found["StateDoc"]["values"]["calls"] == 3
    assert [one["role"] for one in found["PromptDoc"]["prompt"]["messages"]] == ["system", "user", "assistant", "tool"]
    assert (
        found["CompareDoc"]["sentence"]
        == "letter has the input of row 0, and waiting has the input of row 0. They differ in input."
    )
    assert "def test_file_of_letter" in found["CaseDoc"]["text"]
    assert [one["status"] for one in found["ThreadDoc"]["runs"]] == ["interrupted", "interrupted", "failed"]


def test_list_is_paged_and_searched(letters: Runtime[Any, Any], viewer: Callable[..., Any]) -> None:
    for number in range(7):
        letters.update(f"note-{number}", {"question": "q"})
        letters.label(f"note-{number}", title=f"Minutes {number}", add_tags=["odd"] if number % 2 else [])
    client = viewer(letters)

    def names(query: str) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            page = client.get(
                "/api/threads", params={**dict(one.split("=") for one in query.split("&")), "after": after}
            )
            found += [one["thread"] for one in page.json()["threads"]]
            after = page.json()["next"]
            if not after:
                return found

    assert names("limit=2") == [*(f"note-{n}" for n in range(6, -1, -1)), "waiting", "letter"]
    assert names("limit=2&tag=odd") == ["note-5", "note-3", "note-1"]
    assert names("limit=2&text=minutes") == [f"note-{n}" for n in range(6, -1, -1)]
    assert names("limit=2&text=note-1") == ["note-1"]
    assert names("limit=9&status=failed") == ["letter"]
    assert client.get("/api/threads?after=[]").status_code == 422


def test_lists_of_several_graphs_are_merged(letters: Runtime[Any, Any], viewer: Callable[..., Any]) -> None:
    with Runtime(graphs.hostile, store="memory:") as other:
        other.run({}, thread="letter")
        client = viewer([letters, other])
        names: list[tuple[str, str]] = []
        asked: list[tuple[str, str]] = []
        for path, key, found in (("threads", "threads", names), ("inbox", "questions", asked)):
            after: Any = ""
            while after is not None:
                page = client.get(f"/api/{path}", params={"limit": "1", "after": after}).json()
                found += [(one["graph"], one["thread"]) for one in page[key]]
                after = page["next"]

        assert names == [(graphs.hostile.name, "letter"), ("desk", "waiting"), ("desk", "letter")]
        assert asked == [("desk", "waiting"), (graphs.hostile.name, "letter")]
        assert client.get("/api/threads?limit=abc").status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("thread?graph=desk&thread=nobody", 404, "unknown-thread"),
        ("thread?graph=other&thread=letter", 404, "unknown-path"),
        ("thread?graph=desk", 400, "bad-request-part"),
        (f"rows?{Q}&from=-1", 400, "bad-request-part"),
        (f"state?{Q}&at=999", 404, "unknown-entry"),
        (f"call?{Q}&seq=3", 404, "unknown-path"),
        (f"value?{Q}&ref=bm8=", 422, "input"),
        (f"prompt?{Q}&seq=22", 403, "forbidden"),
        (f"live?{Q}&after=x", 400, "bad-request-part"),
        ("coverage?graph=desk", 404, "unknown-path"),
        ("nothing", 404, "unknown-path"),
    ],
)
def test_problems_name_the_cause(
    letters: Runtime[Any, Any], viewer: Callable[..., Any], path: str, status: int, code: str
) -> None:
    answer = viewer(letters).get(f"/api/{path}")

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"


def test_only_the_page_and_its_files_need_no_credentials(
    letters: Runtime[Any, Any], viewer: Callable[..., Any]
) -> None:
    client = viewer(letters, authorize=LoopbackAccess("sesame"))
    client.base_url = "http://127.0.0.1"
    page = client.get("/")
    assert page.status_code == 200
    assert "'unsafe-inline'" not in page.headers["content-security-policy"]
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for name in ("style.css", "app.js", "vendor/dagre.esm.js"):
        assert client.get(f"/page/{name}").status_code == 200
    for name in ("types.d.ts", "vendor/LICENSE.dagre.txt", "../_app.py", "..%2f_app.py", "index.html"):
        assert client.get(f"/page/{name}").status_code == 404

    paths = [*GETS, f"live?{Q}"]
    assert {client.get(f"/api/{path}", headers=HERE).status_code for path in paths} == {401}
    right = {"authorization": "Bearer sesame"}
    assert client.get("/api/head", headers=right).status_code == 200
    for wrong in ({"host": "evil.example"}, {"origin": "http://evil.example"}, {"x-forwarded-for": "1.2.3.4"}):
        assert client.get("/api/head", headers={**right, **wrong}).status_code == 403


def test_caller_without_the_right_to_read_sees_nothing(letters: Runtime[Any, Any], viewer: Callable[..., Any]) -> None:
    client = viewer(letters, Caller(rights={"run", "answer"}), prompts=True)

    assert {client.get(f"/api/{path}").status_code for path in GETS} == {403}


def test_caller_of_another_tenant_sees_nothing(viewer: Callable[..., Any], tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        with Runtime(graphs.letters, store=TenantStore(store, "acme"), harness=graphs.writer()) as acme:
            failed_letter(acme)
        with Runtime(graphs.letters, store=store) as shared:
            other = viewer(shared, Caller(tenant="other"), prompts=True)
            own = viewer(shared, Caller(tenant="acme"), prompts=True)

            assert own.get(f"/api/thread?{Q}").json()["thread"] == "letter"
            assert [one["thread"] for one in own.get("/api/threads").json()["threads"]] == ["letter"]
            assert other.get("/api/threads").json()["threads"] == []
            assert other.get("/api/inbox").json()["questions"] == []
            of_thread = [path for path in GETS if "thread=" in path]
            assert {other.get(f"/api/{path}", headers=HERE).status_code for path in of_thread} == {404}
            assert other.get("/api/thread?graph=desk&thread=acme~letter").status_code in (404, 422)


def test_store_without_a_graph_is_shown(letters: Runtime[Any, Any], viewer: Callable[..., Any], tmp_path: Path) -> None:
    client = viewer(f"sqlite:///{tmp_path}/runs.db", acting="drive", prompts=True)
    head = client.get("/api/head").json()

    assert (head["graphs"], head["acting"], head["prompts"], head["cases"]) == ([], [], False, False)
    assert head["title"] == "runs.db"
    assert head["notes"]
    assert [one["thread"] for one in client.get("/api/threads").json()["threads"]] == ["waiting", "letter"]
    for path in ("thread", "rows", "entries", "state", "conversation", "audit"):
        assert client.get(f"/api/{path}?{Q}").status_code == 200, path
    assert client.get(f"/api/call?{Q}&seq=22").json()["prompt_problem"]
    assert {client.get(f"/api/{path}?{Q}&other=waiting").status_code for path in ("compare", "case")} == {404}


def test_truncated_value_is_served_in_full(viewer: Callable[..., Any]) -> None:
    with Runtime(graphs.hostile, store="memory:") as runtime:
        runtime.run({}, thread="t")
        client = viewer(runtime)
        asked = {"graph": graphs.hostile.name, "thread": "t"}
        rows = client.get("/api/rows", params=asked).json()["rows"]
        of_row = next(row for row in rows if row["node"] == "weigh")["ops"][0][2]["$cut"]["ref"]
        of_state = client.get("/api/state", params=asked).json()["values"]["text"]["$cut"]["ref"]
        entries = client.get("/api/entries", params=asked).json()["entries"]
        [cut] = [one["data"]["updates"][0]["text"] for one in entries if one["data"].get("node") == "weigh"]

        for ref in (of_row, of_state, cut["$cut"]["ref"]):
            answer = client.get("/api/value", params={**asked, "ref": ref}).json()
            assert len(answer["text"]) == 12 * 900_000


def test_pages_and_conversations_of_large_values_are_bounded(viewer: Callable[..., Any]) -> None:
    with Runtime(graphs.inner.compile(), store="memory:") as runtime:
        for number in range(30):
            runtime.run({"question": str(number) + "x" * 900}, thread="t")
        library = Library({"look up": runtime}, None, threads=Threads(SMALL), bounds=SMALL, coverage=None)
        rows: list[Any] = []
        while len(rows) < library.rows("look up", "t", 0, 0)["total"]:
            page = library.rows("look up", "t", len(rows), 500)["rows"]
            assert 0 < len(str(page)) < 8_000
            rows += page
        said = library.conversation("look up", "t")["messages"]

    assert [row["n"] for row in rows] == list(range(120))
    assert len(said) == 30
    assert len(str(said[0])) > 900 > 2 * len(str(said[-1]["parts"][0]["value"]["question"]["$cut"]["shown"]))


@pytest.mark.parametrize("target", ["runtime", "store"])
def test_viewing_writes_nothing(
    letters: Runtime[Any, Any], viewer: Callable[..., Any], tmp_path: Path, target: str
) -> None:
    """Neither the database nor its log changes, for any request."""
    letters.store.close()  # type: ignore[union-attr]

    def digests() -> dict[str, str]:
        files = [one for one in tmp_path.glob("runs.db*") if not one.name.endswith("-shm")]
        return {one.name: sha256(one.read_bytes()).hexdigest() for one in files if one.stat().st_size}

    before = digests()
    with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        client = viewer(Runtime(graphs.letters, store=store) if target == "runtime" else store, prompts=True)
        for path in [*GETS, f"live?{Q}", "threads?text=rain", "threads?tag=post"]:
            assert client.get(f"/api/{path}").status_code in (200, 403, 404)
        seen = digests()
    assert before == seen == digests()


def test_changed_journal_is_reported_by_the_verdict(
    letters: Runtime[Any, Any], viewer: Callable[..., Any], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database, database:
        found = [one for one in database.execute("SELECT key, body FROM record") if b"plan for rain" in one[1]]
        assert found
        for key, body in found:
            changed = body.replace(b"plan for rain", b"plan for snow")
            database.execute("UPDATE record SET body = ? WHERE key = ?", (changed, key))
    client = viewer(letters)

    assert check(client.get(f"/api/audit?{Q}").json(), "AuditDoc")["verdict"] == "damaged"
    assert client.get(f"/api/thread?{Q}").status_code == 503
    assert client.get("/api/audit?graph=desk&thread=waiting").json()["verdict"] == "intact"


def test_coverage_is_shown_on_the_graph(letters: Runtime[Any, Any], viewer: Callable[..., Any], tmp_path: Path) -> None:
    from graphrt.testing.route_coverage.arcs import declared
    from graphrt.testing.route_coverage.data import CoverageData, GraphData

    topology = letters.graph.topology()
    arcs = declared(topology)
    graph = GraphData("desk|x", "desk", "x.py", 1, {}, "", arcs, {})
    data = CoverageData({"desk|x": graph}, {("desk|x", ""): {one: {"test_a"} for one in arcs if one.source == "plan"}})
    data.save(tmp_path / "coverage.json")
    found = check(
        viewer(letters, coverage=tmp_path / "coverage.json").get("/api/coverage?graph=desk").json(), "CoverageDoc"
    )

    edges = {one["edge"]: check(one, "CoverageArc")["taken"] for one in found["arcs"] if one["edge"] is not None}
    assert sorted(edges) == list(range(len(topology["edges"])))
    assert [topology["edges"][at]["from"] for at, taken in edges.items() if taken] == ["plan"]


def test_viewer_can_be_mounted_in_a_server_and_uses_its_callers(letters: Runtime[Any, Any]) -> None:
    from starlette.testclient import TestClient

    def who(request: Any) -> Caller | None:
        name = request.headers.get("x-user")
        return Caller(user=name, rights={"read"}) if name else None

    server = app(letters, authorize=who, mounts={"/ui": viewer_app(letters, acting="start")})
    with TestClient(server) as client:
        page = client.get("/ui")
        assert page.url.path == "/ui/"
        assert 'href="page/style.css"' in page.text
        assert client.get("/ui/page/app.js").status_code == 200
        assert client.get("/ui/api/head").status_code == 401
        head = client.get("/ui/api/head", headers={"x-user": "ann"}).json()
        assert (head["user"], head["acting"]) == ("ann", [])
        assert client.get("/ui/../graphs").status_code == 401

    alone = TestClient(viewer_app(letters))
    assert alone.get("/api/head").status_code == 401, "nobody says who calls"
    assert json.loads(alone.get("/api/head").text)["code"] == "unauthenticated"
