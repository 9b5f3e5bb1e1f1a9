"""Access control: rights, tenants, the user in the journal, and the guard of a server on loopback."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException

from graphrt import InputError, Runtime
from graphrt.serve import ALL_RIGHTS, Bounds, Caller, LoopbackAccess, anyone, app
from graphrt.serve._access import checked_origins
from graphrt.serve._verbs import VERBS

from .conftest import SECRET, papers


def by_header(request):
    """A caller is identified by headers: `user`, `tenant`, `rights`."""
    if "user" not in request.headers:
        return None
    rights = request.headers.get("rights", "read run answer operate").split()
    return Caller(user=request.headers["user"], tenant=request.headers.get("tenant"), rights=frozenset(rights))


async def slowly(request):
    return by_header(request)


@pytest.mark.parametrize("authorize", [by_header, slowly])
def test_request_without_credentials_is_refused(serve, authorize):
    served = serve(authorize=authorize, drives=False)

    refused = served("GET", "/threads")

    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert served("GET", "/threads", user="ada").status_code == 200
    assert [served.http.get(path).status_code for path in ("/openapi.json", "/graphs")] == [401, 401]
    assert [served.http.get(path).status_code for path in ("/health", "/ready")] == [200, 200]


def test_readiness_checks_without_credentials_share_one_query_of_the_store(serve):
    looks: list[int] = []
    served = serve(drives=False, authorize=by_header, ready=[lambda: looks.append(1) or True])

    answers = [served.http.get("/ready").status_code for _ in range(10)]

    assert (set(answers), len(looks)) == ({200}, 1)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_each_verb_requires_its_right(serve, verb):
    served = serve(authorize=by_header, drives=False)
    path = verb.path.format(thread="t", name="s")

    others = served(verb.method, path, {}, user="ada", rights=" ".join(ALL_RIGHTS - {verb.right}))
    own = served(verb.method, path, {}, user="ada", rights=verb.right)

    assert (others.status_code, others.json()["code"]) == (403, "forbidden")
    assert own.status_code not in (401, 403)


def test_tenant_sees_only_its_own_threads(serve):
    with Runtime(papers(), store="memory:") as runtime:
        served = serve(runtime, authorize=by_header)
        for tenant, topic in (("acme", "tea"), ("bolt", "milk")):
            body = {"input": {"topic": topic}, "thread": "t"}
            served("POST", "/threads?wait_s=10", body, user="ada", tenant=tenant)
        served("POST", "/threads?wait_s=10", {"input": {"topic": "rum"}, "thread": "u"}, user="eve", tenant="bolt")
        asked = served("GET", "/inbox", user="eve", tenant="bolt").json()["questions"]
        question = next(one["id"] for one in asked if one["thread"] == "u")

        def acme(method, path, body=None):
            return served(method, path, body, user="ada", tenant="acme")

        assert acme("GET", "/threads/t").json()["state"]["topic"] == "tea"
        assert [one["thread"] for one in acme("GET", "/threads").json()["threads"]] == ["t"]
        assert len(acme("GET", "/inbox").json()["questions"]) == 1
        for method, path, body in (
            ("GET", "/threads/u", None),
            ("GET", "/threads/bolt~t", None),
            ("GET", "/threads/u/events", None),
            ("DELETE", "/threads/u", None),
            ("POST", "/threads/u/answers", {"answers": {question: True}}),
        ):
            assert acme(method, path, body).status_code == 404
        assert acme("POST", "/threads/t/answers", {"answers": {question: True}}).status_code == 409
        assert served("GET", "/threads/u", user="eve", tenant="bolt").json()["status"] == "interrupted"
        assert sorted(one.thread for one in runtime.threads()) == ["acme~t", "bolt~t", "bolt~u"]


def test_the_journal_names_the_user_of_each_request(serve):
    with Runtime(papers(), store="memory:") as runtime:
        served = serve(runtime, authorize=by_header)
        served("POST", "/threads?wait_s=10", {"input": {"topic": "tea"}, "thread": "t"}, user="ada")
        served("POST", "/threads/t/update", {"values": {"notes": ["x"]}}, user="eve")
        served("POST", "/threads/t/answers?wait_s=10", {"answer": True}, user="ben")

        users = [entry.event.user for entry in runtime.entries("t") if getattr(entry.event, "user", "")]

        assert users == ["ada", "eve", "ben"]


def test_pages_of_other_origins_are_refused_unless_they_are_listed(serve):
    closed = serve(drives=False)
    named = serve(drives=False, cors=["https://app.example"])

    def asked(served, origin):
        headers = {"origin": origin, "access-control-request-method": "POST"}
        return served.http.options("/graphs/papers/threads", headers=headers).headers

    assert "access-control-allow-origin" not in asked(closed, "https://app.example")
    assert "access-control-allow-origin" not in asked(named, "https://evil.example")
    assert asked(named, "https://app.example")["access-control-allow-origin"] == "https://app.example"


@pytest.mark.parametrize(
    "cors",
    [
        "https://app.example",
        "*",
        None,
        [5],
        ["https://app.example/"],
        ["https://app.example", "app.example"],
        ["https://*.example"],
        ["https://App.example"],
        ["https://app.example:443"],
        ["https://app.example/page"],
        ["https://bücher.example"],
    ],
)
def test_origin_that_no_page_has_is_refused(cors):
    with Runtime(papers(), store="memory:") as runtime, pytest.raises(InputError, match="cors= cannot be"):
        app(runtime, authorize=anyone, cors=cors)
    with pytest.raises(InputError, match="cors= cannot be"):
        LoopbackAccess("token-1", cors=cors)


def test_origins_of_every_kind_are_accepted():
    cors = ["*", "null", "http://localhost:5173", "http://[::1]:8080", "chrome-extension://abc"]

    assert checked_origins(cors) == tuple(cors)


SITES = [
    ({}, True),
    ({"origin": "SELF"}, True),
    ({"origin": "https://app.example"}, True),
    ({"origin": "https://app.example", "sec-fetch-site": "cross-site"}, True),
    ({"origin": "https://behind.example", "sec-fetch-site": "same-origin"}, True),  # a proxy sends another Host
    ({"origin": "https://evil.example"}, False),
    ({"origin": "https://evil.example", "sec-fetch-site": "same-site"}, False),
    ({"sec-fetch-site": "cross-site"}, False),
    ({"origin": "null"}, False),
    ({"origin": "http://[evil"}, False),
]


@pytest.mark.parametrize(("headers", "allowed"), SITES)
def test_page_of_another_origin_cannot_write_even_with_the_cookies_of_the_user(serve, headers, allowed):
    async def page(scope, receive, send):
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body"})

    served = serve(drives=False, cors=["https://app.example"], mounts={"/page": page})
    thread = served("POST", "/threads", {"input": {"topic": "tea"}}).json()["thread"]
    given = {name: served.url if value == "SELF" else value for name, value in headers.items()}
    paths = [f"/graphs/papers/threads/{thread}/{verb}" for verb in ("cancel", "retry")]

    answers = [served.http.post(path, headers=given) for path in (*paths, "/page/x")]

    assert [one.status_code for one in answers] == ([200, 202, 404] if allowed else [403] * 3)
    assert served.http.get(f"/graphs/papers/threads/{thread}", headers=given).json()["status"] == "running"


def test_body_without_a_json_content_type_starts_nothing(serve):
    served = serve(drives=False)

    answer = served.http.post(
        "/graphs/papers/threads", content='{"input": {"topic": "x"}}', headers={"content-type": "text/plain"}
    )

    assert answer.status_code == 400
    assert served("GET", "/threads").json()["threads"] == []


class Page:
    """An application that answers with the caller and the body; its document is public."""

    public_paths = ("/",)

    async def __call__(self, scope, receive, send):
        caller = scope.get("graphrt.caller")
        text = "no caller" if caller is None else f"{caller.user} {(await receive())['body'].decode()}"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": text.encode()})


def test_mounted_applications_get_the_requests_of_callers_with_the_right_to_read(serve):
    bounds = Bounds(body_bytes=10)
    http = serve(drives=False, authorize=by_header, bounds=bounds, mounts={"/page": Page()}).http

    assert http.get("/page/x").status_code == 401
    assert http.get("/page/x", headers={"user": "ada", "rights": "run"}).status_code == 403
    assert http.post("/page/x", headers={"user": "ada"}, content=b"said").text == "ada said"
    assert http.post("/page/x", headers={"user": "ada"}, content=b"x" * 11).status_code == 413
    assert (http.get("/page/").text, http.post("/page/").status_code) == ("no caller", 401)


def test_mounted_applications_get_no_websockets():
    async def page(scope, receive, send):
        raise AssertionError("nobody has asked who this is")

    with Runtime(papers(), store="memory:") as runtime:
        application = app(runtime, authorize=by_header, mounts={"/page": page})
        sent: list[Any] = []

        async def send(message):
            sent.append(message)

        asyncio.run(application({"type": "websocket", "path": "/page/x", "headers": []}, None, send))

    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_invalid_result_of_authorize_is_not_revealed(serve):
    served = serve(drives=False, authorize=lambda _request: {"password": SECRET})

    refused = served("GET", "/threads")

    assert (refused.status_code, refused.headers["connection"]) == (500, "close")
    assert SECRET not in refused.text


@pytest.mark.parametrize(
    ("raised", "status", "code"), [(401, 401, "unauthenticated"), (403, 403, "forbidden"), (429, 500, "unexpected")]
)
def test_http_exception_of_authorize_is_a_problem_about_the_caller(serve, raised, status, code):
    def refuse(_request):
        raise HTTPException(raised, SECRET)

    refused = serve(drives=False, authorize=refuse)("GET", "/threads")

    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert SECRET not in refused.text


@pytest.mark.needs("fastapi")
def test_application_can_be_mounted_in_another_one(running):
    from fastapi import FastAPI

    from graphrt.serve import anyone

    with Runtime(papers(), store="memory:") as runtime:
        outer = FastAPI()
        outer.mount("/agents", app(runtime, authorize=anyone))
        with httpx.Client(base_url=running(outer)) as client:
            made = client.post("/agents/graphs/papers/threads", json={"input": {"topic": "tea"}})
            unknown = client.get("/agents/graphs/papers/threads/none").json()

            assert client.get(made.headers["location"]).json()["status"] == "running"
            assert client.get(unknown["type"]).status_code == 200
            assert client.get("/agents/openapi.json").json()["servers"] == [{"url": "/agents"}]


def test_authorize_is_required_and_returns_a_caller(serve):
    with pytest.raises(TypeError):
        app(Runtime(papers(), store="memory:"))  # type: ignore[call-arg]
    with pytest.raises(InputError):
        Caller(rights=frozenset({"fly"}))  # type: ignore[arg-type]
    with pytest.raises(InputError) as raised:
        Caller(tenant="a~b")
    assert raised.value.code == "bad-tenant"
    with pytest.raises(InputError) as raised:
        app(Runtime(papers()), authorize=by_header)
    assert raised.value.code == "thread-without-store"


# -- loopback ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "SELF"}, 200),
        ({"origin": "http://app.example"}, 200),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic token-1"}, 401),
        ({"authorization": ""}, 401),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"x-forwarded-for": "1.2.3.4"}, 403),
        ({"forwarded": "for=1.2.3.4"}, 403),
        ({"via": "1.1 proxy"}, 403),
    ],
)
def test_server_on_loopback_refuses_requests_from_elsewhere(serve, headers, status):
    served = serve(drives=False, authorize=LoopbackAccess("token-1", cors=["http://app.example"]))
    given = {"authorization": "Bearer token-1", **headers}
    if given.get("origin") == "SELF":
        given["origin"] = served.url

    assert served.http.get("/graphs", headers=given).status_code == status
