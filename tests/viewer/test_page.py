"""The page in a browser: the file opened from disk, and the page that a server shows, by keyboard and by mouse.

One test runs with the others; the rest needs a browser for half a minute, and runs in `nox -s viewer`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.conftest import running  # noqa: F401 - a fixture

from graphrt import END, START, Context, GraphBuilder, Runtime, viewer
from graphrt.harness import Agent, ModelProfile, ScriptedModel

from . import graphs

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium", "playwright")]
BROWSER_OPTIONS = [
    "--no-sandbox",  # root in a container
    *["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
    *["--disable-component-update", "--disable-sync"],
]
PAGE = Path(viewer.__file__).parent / "page"
HERE = Path(__file__).parent
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def chromium() -> Generator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=BROWSER_OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def browse(chromium: Any) -> Generator[Callable[..., Any]]:
    """Open a page; at the end its console must be empty, and all its requests must have gone to its origin."""
    noticed: list[str] = []
    contexts: list[Any] = []

    def opened(url: str, *, expected: str = "", **options: Any) -> Any:
        options = {"viewport": WIDE, "permissions": ["clipboard-read", "clipboard-write"], **options}
        if not url.startswith("http:"):
            options.pop("permissions")
        context = chromium.new_context(**options)
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        origin = "file:" if url.startswith(("file:", "about:")) else "/".join(url.split("/")[:3])
        page.on("console", lambda message: message.text == expected or noticed.append(message.text))
        page.on("pageerror", lambda error: noticed.append(str(error)))
        page.on("dialog", lambda dialog: (noticed.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda sent: sent.url.startswith((origin, "data:")) or noticed.append(sent.url))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert noticed == []


@pytest.fixture
def ui(letters: Runtime[Any, Any], running: Callable[[Any], str]) -> Callable[..., str]:  # noqa: F811
    """Serve a viewer and return its address; `letters` unless other runtimes are passed."""
    from graphrt.serve import Caller

    def served(*runtimes: Runtime[Any, Any], **options: Any) -> str:
        options = {"authorize": lambda _request: Caller(user="ann"), "acting": "drive", "prompts": True, **options}
        return running(viewer.app(list(runtimes) or letters, **options)) + "/"

    return served


def written(runtime: Runtime[Any, Any], thread: str, folder: Path, **options: Any) -> str:
    """Write the file of a thread, and return its URL."""
    place = folder / "run.html"
    place.write_text(viewer.html(runtime, thread, **options), encoding="utf-8")
    return place.as_uri()


def selected(page: Any, name: str = "Steps") -> str:
    """Return the text of the selected row of a list."""
    return str(page.get_by_role("listbox", name=name, exact=True).get_by_role("option", selected=True).inner_text())


def test_file_shows_why_a_run_failed_without_a_server(letters, browse, tmp_path):
    page = browse(written(letters, "letter", tmp_path, prompts=True, target="app:desk"))

    page.get_by_text("Failed in file").wait_for()
    page.get_by_role("heading", name="16 file").wait_for()
    assert "no shelf for 'rain'" in page.get_by_role("tabpanel").inner_text()
    for _ in range(5):
        page.keyboard.press("k")
    page.get_by_role("heading", name="11 write").wait_for()
    page.keyboard.press("4")
    page.get_by_text("You write letters about the weather.").wait_for()
    assert "steps/11?tab=prompt" in page.url


# --------------------------------------------------------------------------------------- in `nox -s viewer` alone


@pytest.mark.full
def test_lists_and_steps_are_reachable_by_keyboard(ui, browse):
    page = browse(ui())
    press = page.keyboard.press

    def heading(name: str) -> None:
        page.get_by_role("heading", name=name).wait_for()

    page.get_by_text("About rain").wait_for()
    press("?")
    assert "Inbox: open questions" in page.get_by_role("dialog").inner_text()
    press("Escape")
    press("/")
    page.keyboard.type("rain")
    page.get_by_text("1 thread", exact=True).wait_for()
    assert "text=rain" in page.url
    press("Escape")
    press("j")
    press("Enter")
    heading("16 file")
    for key, name in (("k", "15 approve"), ("j", "16 file"), ("e", "16 file"), ("b", "11 write"), ("q", "12 approve")):
        press(key)
        heading(name)
    press("b")
    for key, words in (
        ("1", "messages"),
        ("2", "question"),
        ("3", "answer"),
        ("4", "Offered tools"),
        ("5", "calls weather"),
        ("6", "It is clear in Ulm."),
        ("7", "model-replied"),
    ):
        press(key)
        page.get_by_role("tabpanel").get_by_text(words).first.wait_for()
    press("5")
    press(".")
    page.get_by_text("calls send").wait_for()
    press(",")
    page.get_by_text("calls weather").wait_for()
    press("g")
    for _ in range(4):
        press("ArrowDown")
    graph = page.get_by_role("listbox", name="Graph: nodes")
    active = "one => document.getElementById(one.getAttribute('aria-activedescendant')).textContent"
    assert graph.evaluate(active)
    before = graph.get_attribute("viewBox")
    press("+")
    assert graph.get_attribute("viewBox") != before
    press("0")
    press("ArrowUp")
    press("Enter")
    page.wait_for_url(re.compile(r"steps/\d+"))
    press("o")
    press("Home")
    heading("0 input")
    press("y")
    page.get_by_text("Link copied").wait_for()


@pytest.mark.full
def test_every_view_is_reachable_by_keyboard(ui, browse):
    page = browse(ui() + "#/t/desk/letter")
    press = page.keyboard.press

    page.get_by_role("heading", name="16 file").wait_for()
    press("c")
    page.get_by_text("sent to ann: 19 characters").first.wait_for()
    press("f")
    page.get_by_role("option", name=re.compile("^calls")).click()
    page.get_by_text("5 steps contributed to it").wait_for()
    press("k")
    page.get_by_role("heading", name="pages").wait_for()
    press("[")
    page.wait_for_url(re.compile("at=16"))
    press("l")
    page.get_by_role("listbox", name="Entries").get_by_role("option").first.wait_for()
    press("k")
    page.wait_for_url(re.compile(r"journal/\d+"))
    press("x")
    page.get_by_text("differences").first.wait_for()
    press("J")
    page.wait_for_url(re.compile("left=1"))
    press("a")
    page.get_by_role("heading", name="Runs").wait_for()
    press("p")
    page.get_by_text("replay_case").first.wait_for()
    press("Escape")
    press("d")
    page.get_by_role("button", name="Theme: light").wait_for()
    press("i")
    page.get_by_role("heading", name="Inbox").wait_for()
    press("t")
    page.get_by_role("heading", name="Threads").wait_for()


@pytest.mark.full
def test_every_function_is_reachable_by_mouse(ui, browse):
    page = browse(ui())

    def click(name: str, role: str = "button", **options: Any) -> None:
        page.get_by_role(role, name=name, **options).first.click()

    page.get_by_label("Status").select_option("failed")
    page.get_by_text("1 thread", exact=True).wait_for()
    page.get_by_text("About rain").click()
    page.get_by_label("Kinds of steps").select_option("Model calls")
    page.get_by_text("1 of 18").wait_for()
    page.get_by_label("Kinds of steps").select_option("All steps")
    page.get_by_label("Filter the steps").fill("look_up")
    page.get_by_text("1 of 18").wait_for()
    page.get_by_label("Filter the steps").fill("")
    page.locator("g.box.graph .fold").click()
    page.get_by_role("option", name=re.compile("^books: completed")).click()
    page.get_by_role("heading", name=re.compile("6 look_up . books")).wait_for()
    page.get_by_text("The writes of a nested graph are applied with its outer step.").click()
    page.get_by_role("heading", name="7 look_up").wait_for()
    for name in ("Zoom in", "Zoom out", "Show all"):
        click(name)
    page.get_by_role("listbox", name="Steps").get_by_text("write").nth(1).click()
    for name in ("Before", "After", "Prompt", "Reply", "Tools", "Events", "Changes"):
        click(name, "tab")
        assert f"tab={name.lower()}" in page.url
    click("Copy link")
    page.get_by_text("Copied").wait_for()
    assert "steps/11" in page.evaluate("navigator.clipboard.readText()")
    click("Compare", "link")
    page.get_by_label("Right step").fill("1")
    click("Compare")
    page.get_by_role("link", name="step 1 (plan)").wait_for()
    page.get_by_label("Other thread").fill("waiting")
    click("Find the first difference")
    page.get_by_text("States at the first difference").wait_for()
    click("Fields", "link")
    page.get_by_role("option", name=re.compile("^answer")).click()
    page.locator("summary", has_text="question").last.click()
    click("Journal", "link")
    page.get_by_label("Kind of event").select_option("task-failed")
    page.get_by_text("1 of 36").wait_for()
    click("Conversation", "link")
    picture = page.get_by_role("img", name="Picture (image/png)")
    click("Steps", "link")
    page.get_by_role("listbox", name="Steps").get_by_text("write").nth(1).click()
    click("Prompt", "tab")
    picture.first.wait_for()
    assert picture.first.evaluate("one => one.naturalWidth") == 1
    click("About", "link")
    page.get_by_role("heading", name="Journal and audit").wait_for()
    click("Write a test case")
    click("Copy the test")
    assert "replay_case" in page.evaluate("navigator.clipboard.readText()")
    click("Close")
    click("Keyboard help")
    click("Close")


@pytest.mark.full
def test_person_answers_approves_edits_retries_and_cancels(ui, browse, letters):
    Runtime(graphs.letters, store=letters.store, harness=graphs.writer()).run({"question": "hail"}, thread="other")
    page = browse(ui())
    page.get_by_role("link", name="Inbox").click()
    asked = page.get_by_role("article", name="write asks for approval")
    first = asked.filter(has_text="waiting")
    first.get_by_label("Arguments (JSON)").fill('{"to": "bob", "text": "Snow."}')
    first.get_by_role("button", name="Approve").click()
    first.wait_for(state="detached")
    page.goto(page.url.partition("#")[0] + "#/t/desk/waiting")
    verdict = page.get_by_role("article", name="approve asks")
    verdict.get_by_role("button", name="Send the answer").click()
    verdict.get_by_text("do: choose one").wait_for()
    verdict.get_by_label("do").select_option("drop")
    verdict.get_by_label("copies").fill("2")
    verdict.get_by_role("button", name="Send the answer").click()
    page.get_by_text("completed").first.wait_for()
    page.get_by_role("button", name="Retry").wait_for(state="detached")

    state = letters.state("waiting")
    assert state.values.verdict.copies == 2
    assert "sent to bob: 5 characters" in str(state.values.messages)
    page.goto(page.url.partition("#")[0] + "#/t/desk/other")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("cancelled").first.wait_for()
    page.goto(page.url.partition("#")[0] + "#/t/desk/letter")
    page.get_by_role("button", name="Retry").click()
    page.get_by_text("Retrying").wait_for()
    page.get_by_role("heading", name=re.compile(r"(19|2\d) file")).wait_for()


@pytest.mark.full
def test_read_only_user_gets_no_actions(ui, browse):
    page = browse(ui(acting="off") + "#/t/desk/waiting")

    page.get_by_role("article", name="write asks for approval").wait_for()

    for name in ("Approve", "Retry", "Cancel"):
        assert page.get_by_role("button", name=name).count() == 0


@pytest.mark.full
def test_running_thread_is_followed_and_a_reload_loses_nothing(ui, browse, tmp_path):
    gate = threading.Event()

    class Slow:
        """A model that has emitted half of its reply, and waits for the test."""

        profile = ModelProfile(name="slow")

        async def invoke(self, request: Any, /) -> Any:
            return [one async for one in self.stream(request)][-1]

        async def stream(self, request: Any, /) -> Any:
            pieces = [one async for one in ScriptedModel(["Half of <b>this</b> and the rest."]).stream(request)]
            for at, piece in enumerate(pieces):
                if at == len(pieces) // 2:
                    assert await asyncio.to_thread(gate.wait, 60)
                yield piece

    g = GraphBuilder(graphs.Long, name="slow")

    @g.node
    async def work(state: graphs.Long, ctx: Context) -> dict[str, Any]:
        reply = await ctx.harness.run("Go on") if state.n == 3 else None
        return {"items": [reply.text if reply else f"item {state.n}"], "n": 1}

    g.add_edge(START, work)
    g.add_conditional_edges(work, lambda state: "on" if state.n < 6 else "out", {"on": work, "out": END})
    store = f"sqlite:///{tmp_path}/slow.db"
    with Runtime(g.compile(), store=store, harness=Agent(Slow(), name="writer"), stream_models=True) as runtime:
        page = browse(ui(runtime))
        driver = threading.Thread(target=runtime.run, args=({},), kwargs={"thread": "t"}, daemon=True)
        driver.start()
        while not runtime.threads() or runtime.state("t").values.n < 3:
            time.sleep(0.01)
        page.goto(page.url.partition("#")[0] + "#/t/slow/t")
        page.get_by_role("option", name=re.compile("work: running")).wait_for()
        for _ in range(2):
            page.get_by_role("log", name="Running tasks").get_by_text("Half of <b>this</b>").wait_for()
            page.reload()
        rows = page.get_by_role("listbox", name="Steps").get_by_role("option")
        rows.first.wait_for()
        before = rows.count()
        gate.set()
        page.get_by_text("completed").first.wait_for()
        page.get_by_role("listbox", name="Steps").get_by_text("ended").wait_for()

        assert rows.count() == before + 4
        driver.join()


@pytest.mark.full
@pytest.mark.parametrize("form", ["file", "served"])
def test_hostile_texts_are_shown_as_plain_text(form, ui, browse, tmp_path):
    with Runtime(graphs.hostile, store="memory:") as runtime:
        runtime.run({}, thread="t", title="left \u202etfel <b>", tags=["<i>", "javascript:1"])
        with pytest.raises(Exception, match="owned"):
            runtime.resume("t", answer=graphs.HOSTILE[0])
        url = (
            written(runtime, "t", tmp_path)
            if form == "file"
            else ui(runtime) + "#/t/%3Cb%20onclick%3Dalert(1)%3Ehostile%3C%2Fb%3E/t"
        )
        page = browse(url)
        page.get_by_role("heading", name="7 fail").wait_for()
        for key in "kkkkkkk":
            page.keyboard.press(key)
            for tab in "1237":
                page.keyboard.press(tab)
                page.wait_for_timeout(30)
        page.keyboard.press("j")
        page.keyboard.press("1")
        shown = page.get_by_role("tabpanel")
        shown.get_by_text("</script><script>document.title='owned'</script>").first.wait_for()
        for view in "cflxas":
            page.keyboard.press(view)
            page.wait_for_timeout(100)

        assert page.title() == "left \\u202etfel <b> · graphrt"
        assert "left \\u202etfel <b>" in page.get_by_role("heading", level=1).inner_text()
        assert page.locator("main script, main iframe, main object, main a:not([href^='#'])").count() == 0
        assert page.locator("main img").count() == 0
        assert page.evaluate("({}).polluted") is None


@pytest.mark.full
def test_long_thread_of_a_large_graph_is_usable_in_two_seconds(browse, tmp_path):
    steps = 10_000
    with Runtime(graphs.ring(500, steps), store="memory:") as runtime:
        runtime.run({}, thread="t")
        url = written(runtime, "t", tmp_path)
    assert (tmp_path / "run.html").stat().st_size < 3 * 1024 * 1024
    page = browse("about:blank")
    meter = page.context.new_cdp_session(page)
    # Processor time of the page, since other tests run beside this one.
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(url)
    page.get_by_role("listbox", name="Steps").get_by_role("option").first.wait_for()
    page.keyboard.press("k")
    page.get_by_role("heading", name=re.compile(r"^\d{4} node \d+")).wait_for()
    page.get_by_role("option", name=re.compile("^node 499: ")).wait_for()
    metrics = {one["name"]: one["value"] for one in meter.send("Performance.getMetrics")["metrics"]}

    assert metrics["TaskDuration"] < 2, metrics
    assert page.get_by_role("listbox", name="Steps").get_by_role("option").count() < 100
    page.get_by_role("listbox", name="Steps").focus()
    page.keyboard.press("Home")
    page.get_by_role("heading", name="0 input").wait_for()
    page.keyboard.press("End")
    page.get_by_role("heading", name=re.compile("1000[0-9]")).wait_for()


@pytest.mark.full
def test_page_in_a_server_asks_for_its_token_and_keeps_it_out_of_the_address(letters, running, browse):  # noqa: F811
    from graphrt.serve import Caller, app

    def authorize(request: Any) -> Any:
        return Caller(user="ann") if request.headers.get("authorization") == "Bearer sesame" else None

    url = running(app(letters, authorize=authorize, mounts={"/ui": viewer.app(letters)})) + "/ui/"
    page = browse(f"{url}#token=sesame&/inbox")
    page.get_by_role("heading", name="Inbox").wait_for()
    assert "sesame" not in page.url
    page.reload()
    page.get_by_role("heading", name="Inbox").wait_for()
    other = browse(url, expected="Failed to load resource: the server responded with a status of 401 (Unauthorized)")
    for token in ("wrong", "sesame"):
        other.get_by_label("Token of the server").fill(token)
        other.get_by_role("button", name="Continue").click()
    other.get_by_text("About rain").wait_for()


@pytest.mark.full
def test_route_coverage_is_shown_on_the_graph(ui, letters, browse, tmp_path):
    from graphrt.testing.route_coverage.arcs import declared
    from graphrt.testing.route_coverage.data import CoverageData, GraphData

    arcs = declared(letters.graph.topology())
    graph = GraphData("desk|x", "desk", "x.py", 1, {}, "", arcs, {})
    taken = {one: {"test_a"} for one in arcs if one.source == "plan"}
    CoverageData({"desk|x": graph}, {("desk|x", ""): taken}).save(tmp_path / "coverage.json")
    page = browse(ui(coverage=tmp_path / "coverage.json") + "#/t/desk/letter")

    page.get_by_role("heading", name="16 file").wait_for()
    page.keyboard.press("v")
    for words, many in (("tested", 1), ("only here", 5), ("no test", 2)):
        page.locator(".edge-count").get_by_text(words, exact=True).first.wait_for(state="attached")
        assert page.locator(".edge-count").get_by_text(words, exact=True).count() == many
    page.get_by_role("button", name="Coverage").click()
    assert page.locator(".edge-count").get_by_text("tested").count() == 0


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with axe-core and the TypeScript compiler, installed from the lock file."""
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI"):
            pytest.fail("CI needs node and npm: the page is checked by axe-core and tsc there")
        pytest.skip("no npm: axe-core and tsc do not check the page")
    folder = tmp_path_factory.mktemp("packages")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder / name)
    command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"npm could not install the packages: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return folder / "node_modules"


@pytest.mark.full
def test_modules_of_the_page_match_their_declared_types(packages):
    command = ["node", str(packages / "typescript/bin/tsc"), "-p", str(HERE / "tsconfig.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


@pytest.mark.full
@pytest.mark.parametrize(("scheme", "viewport"), [("light", WIDE), ("dark", WIDE), ("light", NARROW), ("dark", NARROW)])
def test_axe_has_no_findings_in_any_view(packages, ui, browse, scheme, viewport):
    script = (packages / "axe-core/axe.min.js").read_text(encoding="utf-8")
    url = ui()
    page = browse(url, color_scheme=scheme, viewport=viewport)
    found: dict[str, Any] = {}
    thread = "#/t/desk/letter/"
    views = [
        "#/",
        "#/inbox",
        "#/t/desk/waiting",
        f"{thread}conversation",
        f"{thread}fields/notes",
        f"{thread}journal/26",
    ]
    views += [f"{thread}compare?left=1&right=11", f"{thread}about", f"{thread}compare?other=waiting"]
    views += [f"{thread}steps/11?tab={tab}" for tab in ("changes", "before", "prompt", "reply", "tools", "events")]
    for view in views:
        page.goto(url + view)
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(200)
        page.evaluate(script)
        panes = ["Graph", "Detail"] if viewport == NARROW and "steps/" in view else [None]
        for pane in panes:
            if pane:
                page.get_by_role("button", name=pane, exact=True).click()
            result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            for one in result["violations"]:
                found.setdefault(one["id"], []).append(
                    (view, one["help"], [node["html"][:200] for node in one["nodes"]][:3])
                )

    assert found == {}


def test_modules_of_the_page_follow_its_rules():
    """No text becomes markup, no file exceeds 800 lines, and all import only neighbouring files."""
    for module in PAGE.glob("*.js"):
        text = module.read_text(encoding="utf-8")
        assert len(text.splitlines()) < 800, module.name
        forbidden = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser", text
        )
        assert forbidden == [], module.name
        assert all(name.startswith("./") for name in re.findall(r'from "(.*?)"', text)), module.name
