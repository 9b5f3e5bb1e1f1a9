"""`docs/errors.md` has one section for each code, which names the class of its errors and the names in their advice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from graphrt import errors
from graphrt.errors import GraphrtError
from graphrt.errors._error_code import Finding
from graphrt.errors._page import sections

from .test_declarations import DECLARED

NAMED = re.compile(r"[A-Za-z_][\w.]*(?==)|[A-Za-z_@][\w.]*(?=\()")
"""Functions, classes and options in a text: the names before `(` or `=`."""
GENERAL = {"input", "harness", "script"}
"""Codes of errors without a separate section. Their sections cannot repeat the advice of each of them."""


def defaults() -> dict[str, str]:
    """Code to class: the codes of errors that are raised without one."""
    public = (getattr(errors, name) for name in errors.__all__)
    return {kind.default_code: kind.__name__ for kind in public if issubclass(kind, GraphrtError)}


def public(kind: type[GraphrtError]) -> str:
    """The public class of *kind*, which may be a private subclass."""
    return next(base.__name__ for base in kind.__mro__ if base.__name__ in errors.__all__)


def classes() -> dict[str, str]:
    """Code to the classes that its section names."""
    found: dict[str, set[str]] = {code: set() for code in defaults()}
    for declared in DECLARED.values():
        if isinstance(declared, Finding):
            name = "judgement" if declared.judgement else "problem"
        else:
            name = public(declared.error)
        found.setdefault(declared.code, set()).add(name)
    return {code: said(names or {defaults()[code]}) for code, names in found.items()}


def said(names: set[str]) -> str:
    kinds = [f"`{name}`" for name in sorted(names - {"problem", "judgement"})]
    if "problem" in names:
        kinds.append("a problem of `DefinitionError`")
    if "judgement" in names:
        kinds.append("a problem of `DefinitionError`, which `compile(allow=...)` accepts")
    text = " or ".join(kinds)
    return f"**Class.** {text[0].upper()}{text[1:]}."


def test_every_code_has_one_section_and_there_are_no_others() -> None:
    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    titles = Counter(re.findall(r"^## (\S+)\s*$", page, re.MULTILINE))

    assert [title for title, times in titles.items() if times > 1] == []
    assert sorted(titles) == sorted(classes())


def test_every_section_names_the_class_of_its_errors() -> None:
    written = {code: re.findall(r"^\*\*Class\.\*\* .+$", text, re.MULTILINE) for code, text in sections().items()}

    assert written == {code: [text] for code, text in classes().items()}


def test_sections_name_the_names_in_the_advice_of_their_declarations() -> None:
    page = sections()
    silent: list[str] = []
    for name, declared in DECLARED.items():
        named = [word.rpartition(".")[2] for word in NAMED.findall(declared.fix)]
        if named and declared.code not in GENERAL and not any(word in page[declared.code] for word in named):
            silent.append(f"{name}: the section {declared.code} mentions none of {named}")

    assert silent == []
