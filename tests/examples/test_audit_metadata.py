"""Distributions as found on the disk, including broken ones: read without a warning or an exception."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples.audit import metadata
from examples.audit.state import Facts


def read_all(path: Path) -> dict[str, Facts]:
    return {Path(key).name.partition("-")[0][:6]: metadata.read(key) for key in metadata.find([str(path)])}


def test_well_formed_distribution_is_read(site) -> None:
    (site.path / "pack").mkdir()
    (site.path / "pack" / "__init__.py").write_text("12345", encoding="utf-8")
    key = site.plain(
        "pack",
        "Summary: It packs.",
        "License-Expression: MIT",
        "License-File: LICENSE",
        "Classifier: License :: OSI Approved :: MIT License",
        "Classifier: Typing :: Typed",
        "Project-URL: Source, https://example.org/pack",
        "Requires-Python: >=3.11",
        "Requires-Dist: Other_Pack>=1",
        "Requires-Dist: extra; extra == 'x'",
        record="pack/__init__.py,,5\npack/gone.py,,\npack/gone.pyc,,\n../../bin/pack,,\npack-1.0.dist-info/RECORD,,\n",
        LICENSE="the text",
        entry_points__txt="[console_scripts]\npack = pack:main\n",
    )

    facts = metadata.read(key)

    assert (facts.name, facts.version, facts.expression) == ("pack", "1.0", "MIT")
    assert (facts.summary, facts.homepage, facts.python) == ("It packs.", "https://example.org/pack", ">=3.11")
    assert (facts.requires, facts.classifiers) == (("other-pack",), ("MIT License",))
    assert (facts.files, facts.size_bytes > 5, facts.missing) == (2, True, 2)
    assert (facts.top_level, facts.scripts) == (("pack",), ("pack",))
    assert (facts.text, facts.text_files) == ("the text", ("LICENSE",))
    assert facts.installed_at is not None
    assert facts.problems == ()


def test_broken_parts_are_noted_and_the_rest_is_read(odd_site) -> None:
    facts = read_all(odd_site.path)

    assert facts["empty"].problems == (
        "no name in its metadata",
        "no version in its metadata",
        "no RECORD, so its files are unknown",
    )
    assert (facts["empty"].name, facts["empty"].version) == ("empty", "1.0")
    assert (facts["latin"].name, facts["latin"].field) == ("latin", "MIT")
    assert facts["latin"].problems == ("its metadata is not UTF-8",)
    assert facts["escape"].name == "esc [31mape"
    assert facts["~left"].name == "left"
    assert facts["wide"].name == "漢字漢字漢字"
    assert facts["file"].name == "file"
    assert facts["plain"].field == "BSD"


def test_every_defect_is_found_once(odd_site) -> None:
    keys = metadata.find([str(odd_site.path)])

    assert len(keys) == len(set(keys)) == 14
    assert all(metadata.read(key).name for key in keys)


def test_unreadable_folder_counts_as_empty(tmp_path: Path) -> None:
    assert metadata.find([str(tmp_path / "nowhere")]) == []


def test_editable_installations_are_recognised(site) -> None:
    origin = '{"url": "file:///x", "dir_info": {"editable": true}}'

    assert metadata.read(site.plain("a", direct_url__json=origin)).editable
    assert not metadata.read(site.plain("b", direct_url__json="[broken")).editable


def test_licence_texts_are_clipped_and_read_once(site) -> None:
    key = site.plain("a", "License-File: LICENSE", LICENSE="x" * 50_000, COPYING="never read")

    facts = metadata.read(key)

    assert (len(facts.text), facts.text_files) == (16_000, ("LICENSE",))


@pytest.mark.parametrize("inside", ["lib/python3.12/site-packages", "Lib/site-packages"])
def test_virtual_environment_stands_for_its_site(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).mkdir(parents=True)

    assert metadata.site_of(tmp_path) == tmp_path / inside
    assert metadata.site_of(tmp_path / inside) == tmp_path / inside
    assert metadata.site_of(tmp_path / "nowhere") is None


def test_current_environment_can_be_read() -> None:
    found = {metadata.read(key).name for key in metadata.find(metadata.own_sites())}

    assert "pydantic" in found
