"""A short storm on each kind of host, and faulty builds that a storm has to notice; `nox -s chaos` runs the long ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.stores import postgres_server

from . import namespaces
from .planted import PLANTS, new_ones_only, no_claims
from .storm import Storm

pytestmark = pytest.mark.slow
RIGHT: dict[str, Any] = {"kills": 4}
FEW: dict[str, Any] = {"kills": 3, "active": 6}
"""On PostgreSQL, where each replacement of a dead process takes a second of processor time."""
FULL = bool(os.environ.get("GRAPHRT_FULL"))
WRONG: dict[str, Any] = {"kills": 2, "pace_s": 4.0 if FULL else 1.5, "patience_s": 5}
"""Few disturbances, which explain little, and more patience than the duration of a lease: a correct build is not
abandoned. A faulty one keeps all processors busy until then."""


STORMS = 3
"""Storms over a faulty build, one of which has to notice it: its processes do not get in each other's way in each."""


def on_postgres(request: pytest.FixtureRequest, folder: Path, kind: str, plant: str = "") -> Storm:
    server = postgres_server.server(request.config)
    store = postgres_server.fresh_url(request.config)
    request.addfinalizer(lambda: postgres_server.drop(store))
    return Storm(
        kind=kind,
        store=store,
        system=server.url,
        restart=server.restart,
        folder=folder,
        **(WRONG if plant else FEW),
        plant=plant,
    )


def test_storm_over_workers_on_sqlite_loses_and_repeats_no_work(tmp_path: Path) -> None:
    storm = Storm(kind="worker", store=f"sqlite:///{tmp_path}/runs.db", folder=tmp_path, **RIGHT)

    assert storm.run() == []
    assert storm.done["starts"] >= 10


@pytest.mark.needs("psycopg")
def test_storm_over_workers_on_postgresql_loses_and_repeats_no_work(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    assert on_postgres(request, tmp_path, "worker").run() == []


@pytest.mark.needs("psycopg", "dbos")
def test_storm_over_dbos_loses_and_repeats_no_work(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    assert on_postgres(request, tmp_path, "dbos").run() == []


@pytest.mark.needs("psycopg")
def test_storm_over_machines_that_are_cut_off_or_lost_loses_and_repeats_no_work(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Machines are network namespaces, with clocks that differ by seconds."""
    if reason := namespaces.obstacle():
        pytest.skip(reason)
    tools = postgres_server.binaries()
    if tools is None:
        pytest.skip("needs a PostgreSQL server whose settings may be changed")
    server = postgres_server.Server(tools)  # a separate server, which listens on the namespaces
    request.addfinalizer(server.remove)
    store = postgres_server.with_options(server.url, schema="chaos")
    with namespaces.machines(server, "chaos") as machines:
        storm = Storm(kind="worker", store=store, folder=tmp_path, machines=machines, **FEW)

        assert storm.run() == []
    assert storm.done["cuts"]
    assert storm.done["losses"]


# A full one takes a quarter of a minute: one on each kind of host, and all with GRAPHRT_FULL=1.
@pytest.mark.parametrize("plant", PLANTS if FULL else [no_claims])
def test_storm_detects_a_faulty_build_of_workers(plant: Callable[[], None], tmp_path: Path) -> None:
    options = (
        WRONG if FULL else WRONG | {"kills": 1, "patience_s": 1}
    )  # without claims, the run fails from the beginning

    def detected(number: int) -> bool:
        folder = tmp_path / str(number)
        folder.mkdir()
        store = f"sqlite:///{folder}/runs.db"
        storm = Storm(kind="worker", store=store, folder=folder, plant=plant.__name__, **options)
        return any(line.startswith(PLANTS[plant]) for line in storm.run())

    assert any(detected(number) for number in range(STORMS))


@pytest.mark.needs("psycopg", "dbos")
@pytest.mark.parametrize("plant", PLANTS if FULL else [new_ones_only])
def test_storm_detects_a_faulty_build_on_postgresql(
    plant: Callable[[], None], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kind = "worker" if plant is no_claims else "dbos"

    def detected(number: int) -> bool:
        folder = tmp_path / str(number)
        folder.mkdir()
        return any(line.startswith(PLANTS[plant]) for line in on_postgres(request, folder, kind, plant.__name__).run())

    assert any(detected(number) for number in range(STORMS))
