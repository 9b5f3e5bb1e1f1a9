"""The files of the page: served as they are, or bundled into one document.

They are plain ES modules without a build step. For a file they are bundled into one script, in the order of their
imports: each module becomes a function that is called once and returns its exports. The modules use only forms that a
few regular expressions can parse: an import is one line, and `export` precedes a declaration or is one last statement.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

_TYPES: Final = {".js": "text/javascript", ".css": "text/css"}
"""Media types of the served files, by name suffix."""
_POLICY: Final = (
    "default-src 'none'; {}; img-src data:; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content security policy of a page. Trusted Types keep text from becoming markup or code by mistake."""
HEADERS: Final = {
    "content-security-policy": _POLICY.format("script-src 'self'; style-src 'self'; connect-src 'self'")
    + "; frame-ancestors 'none'",
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""Headers of the page and of its files."""
_DATA: Final = "application/octet-stream;base64"
_ENTRY: Final = "app.js"
_IMPORT: Final = re.compile(r'^import (?:\* as (\w+)|(\{[^}]*\})|(\w+)) from "([^"]+)";[ \t]*$', re.MULTILINE)
_DECLARED: Final = re.compile(
    r"^export (?=(?:async )?function\*?\s+(\w+)|class\s+(\w+)|(?:const|let)\s+(\w+))", re.MULTILINE
)
_LISTED: Final = re.compile(r"(?:^|(?<=;))export\s*\{([^}]*)\};?", re.MULTILINE)


@cache
def asset(name: str) -> tuple[bytes, str] | None:
    """Return the content and the media type of a file of the page; None if there is none of that name."""
    if name not in names():
        return None
    return _folder().joinpath(*name.split("/")).read_bytes(), _TYPES[name[name.rfind(".") :]]


@cache
def names() -> frozenset[str]:
    """Return the names of the files of the page."""
    folder = _folder()
    paths = [(file, file.name) for file in folder.iterdir()]
    paths += [(file, f"vendor/{file.name}") for file in folder.joinpath("vendor").iterdir()]
    return frozenset(name for file, name in paths if file.is_file() and name[name.rfind(".") :] in _TYPES)


def _folder() -> Traversable:
    return files("graphrt.viewer").joinpath("page")


def _text(name: str) -> str:
    file = _folder().joinpath(*name.split("/"))
    return file.read_text(encoding="utf-8")


@cache
def index() -> bytes:
    """Return the document of the served page."""
    meta = '<meta name="api" content="api/">'
    return _text("index.html").replace("<head>", f"<head>\n{meta}", 1).encode()


def document(data: bytes, title: str) -> str:
    """Return the page as one document that loads nothing, with *data* in it.

    Args:
        data: The data for the page, compressed.
        title: Title of the document.
    """
    script, style = _bundle(), _text("style.css")
    allowed = f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    policy = f'<meta http-equiv="content-security-policy" content="{escape(_POLICY.format(allowed))}">'
    embedded = f'<script type="{_DATA}" id="data">{b64encode(data).decode()}</script>'
    text = _text("index.html")
    text = re.sub(r'<link rel="stylesheet"[^>]*>', lambda _: f"<style>{style}</style>", text)
    text = re.sub(r"<script [^>]*></script>", "", text)
    text = re.sub(r"<title>.*?</title>", lambda _: f"<title>{escape(title)}</title>", text)
    text = text.replace("<head>", f"<head>\n{policy}", 1)
    return text.replace("</body>", f'{embedded}\n<script type="module">{script}</script>\n</body>', 1)


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _bundle() -> str:
    """Return all modules as one script."""
    order: list[str] = []
    _visit(_ENTRY, order, [])
    parts = [_module(name) for name in order]
    # The end tag of a script element and the start of a comment in it occur only in strings and comments, where a
    # backslash has no effect.
    return re.sub(r"<(?=/script|!--)", r"\\x3c", "\n".join(parts), flags=re.IGNORECASE)


def _visit(name: str, order: list[str], above: list[str]) -> None:
    """Append *name* to *order*, after the modules that it imports."""
    if name in order:
        return
    if name in above:
        raise ImportError(f"the modules {' -> '.join([*above, name])} import each other")
    for _, _, _, other in _IMPORT.findall(_text(name)):
        _visit(_resolved(name, other), order, [*above, name])
    order.append(name)


def _resolved(name: str, other: str) -> str:
    """Resolve *other*, the relative import of a module in *name*, to the name of the module."""
    parts = name.split("/")[:-1]
    for part in other.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _module(name: str) -> str:
    """Return a module as the declaration of an object with its exports."""
    text = _text(name)
    exported: dict[str, str] = {}

    def imported(match: re.Match[str]) -> str:
        whole, names, default, other = match.groups()
        target = _variable(_resolved(name, other))
        if whole:
            return f"const {whole} = {target};"
        if names:
            return f"const {names.replace(' as ', ': ')} = {target};"
        return f"const {default} = {target}.default;"

    def listed(match: re.Match[str]) -> str:
        for clause in match.group(1).split(","):
            own, _, other = clause.strip().partition(" as ")
            if own:
                exported[other or own] = own
        return ""

    text = _IMPORT.sub(imported, text)
    for names in _DECLARED.findall(text):
        own = next(candidate for candidate in names if candidate)
        exported[own] = own
    text = _LISTED.sub(listed, _DECLARED.sub("", text))
    exports = ", ".join(own if own == other else f"{other}: {own}" for other, own in exported.items())
    return f"const {_variable(name)} = (() => {{\n{text.strip()}\nreturn {{ {exports} }};\n}})();"


def _variable(name: str) -> str:
    return "m_" + re.sub(r"\W", "_", name.removesuffix(".js"))
