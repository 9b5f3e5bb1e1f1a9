"""The page of route coverage in a real browser, as wide as a desk's screen and as wide as a telephone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from tests.testing.covered_graphs import every

from graphrt.testing import record
from graphrt.testing.route_coverage import Summary
from graphrt.testing.route_coverage.html_page import html

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, *([] if BROWSER else [pytest.mark.needs("chromium")])]

# The page has no scripts: a copy of it gets this one, which tells what a person would see. It is shown in a frame, since
# the window of a browser cannot be as narrow as a telephone.
LOOK = """
const box = element => element.getBoundingClientRect();
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
const all = (selector, under = document) => [...under.querySelectorAll(selector)];
const style = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
const pictures = all("svg");
const before = box(document.querySelector("details")).height;
document.querySelector("details summary").click();
const found = {
  width: innerWidth,
  title: document.title,
  scrolls_sideways: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  pictures: pictures.length,
  picture_scrolls: all(".picture").map(each => each.scrollWidth > each.clientWidth),
  text_height: Math.min(...all("svg .node text").map(each => box(each).height)),
  texts_in_boxes: all("svg .node").every(each => inside(box(each.querySelector("text")), box(each.querySelector("rect")))),
  drawn_in_pictures: pictures.every(each => all("rect, path, text", each).every(part => inside(box(part), box(each)))),
  boxes_apart: pictures.every(each => all("rect", each).every((a, at, rest) =>
    rest.slice(at + 1).every(b => apart(box(a), box(b))))),
  dashed: style("svg .node.missed rect", "strokeDasharray"),
  solid: style("svg .node.taken rect", "strokeDasharray"),
  colours: new Set([".edge.taken path", ".edge.missed path", ".node.virtual rect"].map(each =>
    style("svg " + each, "stroke"))).size,
  tables_fit: all("table").every(each => box(each).right <= box(each.parentElement).right + 1),
  links: all("a").every(each => document.querySelector(each.getAttribute("href"))),
  tests_unfold: box(document.querySelector("details")).height > before,
};
parent.document.getElementById("found").textContent = JSON.stringify(found);
"""


def looked_at(page: Path) -> dict[str, Any]:
    """Open *page* in the browser; return what the script found."""
    assert BROWSER is not None
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
    done = subprocess.run(
        [BROWSER, *options, f"--user-data-dir={page.parent / 'profile'}", "--window-size=1400,1000",
         "--dump-dom", page.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = re.search(r'<pre id="found">(.+?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-2000:]
    read: dict[str, Any] = json.loads(unescape(found[1]))
    return read


@pytest.mark.parametrize(("width", "scrolls"), [(1280, False), (390, True)])
def test_page_is_readable_in_a_browser(
    collect: Callable[..., Summary], tmp_path: Path, width: int, *, scrolls: bool
) -> None:
    """A wide picture scrolls by itself on a narrow screen; the page does not, and nothing overlaps or is cut off."""
    for kind in ("loop", "pair", "retry", "error", "half"):
        record(every(), {"kind": kind})
    page = tmp_path / "routes.html"
    copy = html(collect()).replace("</body>", f"<script>{LOOK}</script></body>")
    frame = f'<iframe srcdoc="{escape(copy)}" style="width: {width}px; height: 900px; border: 0"></iframe>'
    page.write_text(f'<meta charset="utf-8"><pre id="found"></pre>{frame}', encoding="utf-8")

    found = looked_at(page)

    assert found.pop("picture_scrolls") == [scrolls, False]
    assert found.pop("text_height") > 8
    assert found == {
        "width": width,
        "title": "Route coverage: 50%",
        "scrolls_sideways": False,
        "pictures": 2,
        "texts_in_boxes": True,
        "drawn_in_pictures": True,
        "boxes_apart": True,
        "dashed": "5px, 3px",
        "solid": "none",
        "colours": 3,
        "tables_fit": True,
        "links": True,
        "tests_unfold": True,
    }
