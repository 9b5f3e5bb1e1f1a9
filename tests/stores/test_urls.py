"""Which store a URL opens, and the errors about URLs that open none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graphrt.errors import InputError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.memory import MemoryStore
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.urls import open_store


@pytest.mark.parametrize("url", ["memory:", "memory://", "MEMORY:"])
def test_memory_url_opens_a_separate_store(url):
    first, second = open_store(url), open_store(url)

    assert isinstance(first, MemoryStore)
    assert first is not second


def test_sqlite_url_with_four_slashes_is_absolute(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        assert isinstance(store, SqliteStore)
        assert store.path == str((tmp_path / "runs.db").resolve())


def test_sqlite_url_with_three_slashes_is_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///runs.db") as store:
        assert not Path("runs.db").exists()  # the first call opens it
        store.query(ThreadFilter())
        assert (tmp_path / "runs.db").exists()


def test_sqlite_url_is_percent_decoded(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a%20b%3Fc%23%25.db") as store:
        store.query(ThreadFilter())
        assert (tmp_path / "a b?c#%.db").exists()


def test_sqlite_url_takes_known_options(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/runs.db?busy_timeout_s=0.5") as store:
        assert isinstance(store, SqliteStore)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("runs.db", "sqlite:///runs.db"),
        ("", "no scheme"),
        ("sqlite:runs.db", "sqlite:///runs.db"),
        ("sqlite://runs.db", "sqlite:///runs.db"),
        ("sqlite:///", "it names no file"),
        ("sqlite:///x.db?mode=ro", "no option 'mode'"),
        ("sqlite:///x.db?busy_timeout_s=soon", "is not a number"),
        ("memory:named", "no name"),
        ("sqlit:///x.db", "Did you mean 'sqlite'"),
        ("redis://localhost", "'redis:'"),
        (7, "but an int"),
        (None, "but a NoneType"),
    ],
)
def test_unknown_url_is_refused_with_the_known_schemes(url, said):
    with pytest.raises(InputError) as caught:
        open_store(url)

    assert caught.value.code == "unknown-store"
    assert said in str(caught.value)
    assert "memory:" in caught.value.known or "busy_timeout_s" in caught.value.known


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:sesame@host/db",
        "redis://:sesame@h:1/0?x=sesame",
        "host=h password=sesame",
        " password = 'sesame' host=h",
        "password=sesame:x dbname=d",
        "sqlite:host=h password=sesame",
        "sqlite:///user=u password=sesame",
        pytest.param("postgresql:host=h password=sesame", marks=pytest.mark.needs("psycopg")),
    ],
)
def test_password_is_never_shown(url):
    with pytest.raises(InputError) as caught:
        open_store(url)

    assert caught.value.code == "unknown-store"
    assert "sesame" not in str(caught.value)


def _install(folder, monkeypatch, value):
    """A package with the scheme "planet", as an installer would leave it."""
    (folder / "planet_store.py").write_text(
        "from graphrt.stores.memory import MemoryStore\n"
        "opened = []\n"
        "def open_planet(url):\n    opened.append(url)\n    return MemoryStore()\n"
        "def open_nothing(url):\n    return object()\n"
    )
    info = folder / "planet_store-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planet-store\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[graphrt.stores]\nplanet = planet_store:{value}\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "planet_store", raising=False)


def test_third_party_scheme_opens_its_store(tmp_path, monkeypatch):
    _install(tmp_path, monkeypatch, "open_planet")

    assert isinstance(open_store("planet://mars?x=1"), MemoryStore)
    assert sys.modules["planet_store"].opened == ["planet://mars?x=1"]


def test_third_party_scheme_is_listed_as_known(tmp_path, monkeypatch):
    _install(tmp_path, monkeypatch, "open_planet")

    with pytest.raises(InputError) as caught:
        open_store("plane://mars")
    assert "'planet'" in caught.value.known
    assert "planet" in caught.value.fix


def test_third_party_object_that_is_not_a_store_is_refused(tmp_path, monkeypatch):
    _install(tmp_path, monkeypatch, "open_nothing")

    with pytest.raises(InputError, match="is not a store") as caught:
        open_store("planet://mars")
    assert caught.value.code == "unknown-store"
