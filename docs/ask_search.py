"""Ask the search of the built site what newcomers ask, and see that each page is among the first two results.

`nox -s site` builds the site and runs this, with the Chromium of the machine (playwright).
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import sync_playwright

SITE = Path(__file__).parents[1] / "build" / "site"
FIRST = 2
"""How many results a reader is expected to try."""
QUESTIONS = {
    "how do I test my graph": "how-to/test-a-graph",
    "mock the model": "how-to/test-a-graph",
    "run without a model in tests": "how-to/test-agents",
    "run tests in github actions": "how-to/run-in-ci",
    "ask a person for approval": "how-to/ask-a-person",
    "chat in the browser": "how-to/serve-a-chat",
    "several agents": "how-to/teams-of-agents",
    "use an MCP server": "how-to/tools",
    "structured output": "how-to/agents",
    "budget tokens cost": "how-to/budgets",
    "stream tokens": "how-to/watch-a-run",
    "retry a failed node": "how-to/retries-timeouts-errors",
    "parallel tasks fan out": "how-to/fan-out-and-join",
    "batch of documents": "how-to/batch-of-documents",
    "run every night": "how-to/nightly-job",
    "store threads in sqlite": "how-to/sqlite",
    "resume after crash": "how-to/resume-after-a-crash",
    "send a payment only once": "how-to/effects",
    "deploy a new version of a graph": "how-to/deploy-a-changed-graph",
    "remember a customer across threads": "how-to/remember-across-threads",
    "erase personal data": "how-to/personal-data",
    "trace with opentelemetry": "how-to/logs-and-traces",
    "migrate from langgraph": "how-to/from-langgraph",
    "compared with temporal": "explanation/compared",
    "what is a superstep": "explanation/supersteps",
}
"""A question to the page that answers it."""


def main() -> int:
    """Print each question with its first results; return 1 if a page is not among them."""
    missed = 0
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=sys.argv[1] if len(sys.argv) > 1 else None)
        tab = browser.new_page()
        for question, page in QUESTIONS.items():
            tab.goto(f"{(SITE / 'search.html').as_uri()}?q={quote(question)}")
            tab.wait_for_selector("ul.search li a")
            links = tab.eval_on_selector_all(
                "ul.search > li > a", "links => links.map(link => link.getAttribute('href'))"
            )
            found = [link.split("?")[0].split("#")[0].removesuffix(".html") for link in links[:FIRST]]
            missed += page not in found
            print(f"{'ok    ' if page in found else 'MISSED'} {question}: {', '.join(found)}")
        browser.close()
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
