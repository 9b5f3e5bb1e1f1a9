"""Who may do what: `Caller`, which `authorize=` returns for a request, and the guard of a server on loopback."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final, get_args
from urllib.parse import urlsplit

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.serving import FOREIGN_REQUEST
from graphrt.stores.ids import check_tenant

if TYPE_CHECKING:
    from starlette.requests import Request

Right: TypeAlias = Literal["read", "run", "answer", "operate"]
"""The rights of a caller: look at threads; start, continue and cancel runs; answer questions; edit, fork and delete."""
ALL_RIGHTS: Final[frozenset[Right]] = frozenset(get_args(Right))

_FORWARDING: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers that proxies add. A server for one person on this machine has no proxy in front."""
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
"""Methods that write nothing."""
_FOREIGN_PAGE: Final = "the Origin of another page"
_ORIGIN: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9_~!$&'()+,;=.-]+)(:(?P<port>[1-9][0-9]{0,4}))?"
)
"""The origin of a page. Browsers write schemes and hosts in lower case, and other than ASCII in Punycode."""
_USUAL_PORTS: Final = {"http": "80", "https": "443"}
"""Ports that browsers leave out of an origin."""
_OWN_SITES: Final = ("same-origin", "none")
"""`Sec-Fetch-Site` of requests by the server's own pages, and of navigations from the address bar."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request, and the sender's rights.

    Raises:
        InputError: A right is unknown, or *tenant* cannot be the name of a tenant (`bad-tenant`).
    """

    user: str = ""
    """Name of the user, which the journals of the threads keep; empty for none."""
    tenant: str | None = None
    """The tenant whose threads the caller sees; None for all threads of the store."""
    rights: frozenset[Right] = field(default=ALL_RIGHTS)
    """The rights of the caller; everything by default. Any collection of rights is accepted."""

    def __post_init__(self) -> None:
        rights = frozenset(self.rights)
        if not rights <= ALL_RIGHTS:
            raise INVALID_ARGUMENT(
                argument="rights=", value=sorted(rights), wanted=f"some of {', '.join(sorted(ALL_RIGHTS))}"
            )
        if self.tenant is not None:
            check_tenant(self.tenant)
        object.__setattr__(self, "rights", rights)


Authorize: TypeAlias = "Callable[[Request], Caller | Awaitable[Caller | None] | None]"
"""A function of a request, sync or async, that returns who sent it; None for a request without valid credentials."""


def anyone(_request: Request) -> Caller:
    """Allow every request everything: for tests, and for servers behind another layer that authorizes."""
    return Caller()


def checked_origins(cors: Any, argument: str = "cors=") -> tuple[str, ...]:
    """Return origins of pages, each as browsers send it, or "*" for all.

    Raises:
        InputError: They are one text, or one of them could never equal the origin of a page.

    Source:
        https://html.spec.whatwg.org/#ascii-serialisation-of-an-origin
    """
    items: Any = cors
    if isinstance(cors, str) or not isinstance(cors, Iterable):
        raise INVALID_ARGUMENT(
            argument=argument, value=cors, wanted='a list of origins, such as ["https://app.example"]'
        )
    origins: tuple[Any, ...] = tuple(items)
    for origin in origins:
        if not (isinstance(origin, str) and _is_origin(origin)):
            wanted = 'origins as browsers send them, such as "https://app.example" or "http://localhost:5173", or "*" for all'
            raise INVALID_ARGUMENT(argument=f"An origin of {argument}", value=origin, wanted=wanted)
    return origins


def _is_origin(text: str) -> bool:
    """Return whether a browser may send *text* as the origin of a page; also true of "*"."""
    if text in ("*", "null"):
        return True
    match = _ORIGIN.fullmatch(text)
    return match is not None and match["port"] != _USUAL_PORTS.get(match["scheme"], "")


def check_origin(method: str, headers: Mapping[str, str], cors: Collection[str]) -> None:
    """Refuse a write from a page of another origin, because the browser may add cookies that `authorize` reads.

    Browsers state the origin of a request in `Sec-Fetch-Site`. Without TLS, and in old browsers, `Origin` is compared
    with `Host` instead. A client that sends neither is not a browser, and adds no credentials on its own.

    Args:
        method: Method of the request.
        headers: Headers of the request, by names in lower case.
        cors: Origins whose pages may also write; "*" for all.

    Raises:
        InputError: The request is one (`forbidden`).

    Source:
        https://words.filippo.io/csrf/, like Go's `CrossOriginProtection`.
    """
    if method in _SAFE or "*" in cors:
        return
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    is_own = (
        origin is None or _netloc(origin) == headers.get("host", "").lower() if site is None else site in _OWN_SITES
    )
    if not is_own and origin not in cors:
        raise FOREIGN_REQUEST(problem=_FOREIGN_PAGE)


def is_loopback(host: str) -> bool:
    """Return whether *host*, a name or an address, is loopback."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


@final
class LoopbackAccess:
    """Authorizes requests to a server on loopback: with its token, from no foreign page, and through no proxy.

    A page of another origin can reach loopback from the user's browser, but it does not know the token. In addition,
    its `Origin` is refused. So is a `Host` that is not loopback, as a page sends after DNS rebinding to 127.0.0.1.

    Args:
        token: Token that requests send as `Authorization: Bearer TOKEN`.
        cors: Origins of pages that may also call the server; "*" for all.

    Raises:
        InputError: An origin of *cors* could never equal that of a page.
    """

    def __init__(self, token: str, *, cors: Iterable[str] = ()) -> None:
        self._token: Final = token.encode()
        self._origins: Final = frozenset(checked_origins(cors))

    def __call__(self, request: Request) -> Caller | None:
        """Return the caller; None without the token.

        Raises:
            InputError: The request is foreign (`forbidden`).
        """
        headers = request.headers
        proxied = [name for name in _FORWARDING if name in headers]
        if proxied:
            raise FOREIGN_REQUEST(problem=f"the header {proxied[0]}, which proxies add")
        host = headers.get("host", "")
        if not is_loopback(_hostname(host)):
            raise FOREIGN_REQUEST(problem="a Host that is not loopback")
        origin = headers.get("origin")
        is_own = origin is None or origin == f"{request.url.scheme}://{host}"
        if not is_own and self._origins.isdisjoint(("*", origin)):
            raise FOREIGN_REQUEST(problem=_FOREIGN_PAGE)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not compare_digest(token.strip().encode(), self._token):
            return None
        return Caller(user="local")


def _hostname(host: str) -> str:
    """Return the name in a `Host` header; empty if it has none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # brackets that enclose no address
        return ""


def _netloc(origin: str) -> str:
    """Return host and port of an `Origin`; empty for "null" and invalid ones."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
