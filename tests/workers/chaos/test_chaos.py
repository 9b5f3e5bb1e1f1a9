"""A short storm on each kind of host, and wrong builds that a storm has to notice; `nox -s chaos` has the long ones."""

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
RIGHT: dict[str, Any] = {"kills": 5}
FEW: dict[str, Any] = {"kills": 3, "active": 6}
"""On PostgreSQL, where each process that is started in place of a dead one takes a second of processor time."""
FULL = bool(os.environ.get("GRAPHRT_FULL"))
WRONG: dict[str, Any] = {"kills": 2, "pace_s": 4.0 if FULL else 1.5, "patience_s": 5}
"""Few disturbances, which can explain little, and more patience than a lease takes to expire: a right build is not given
up. A wrong one keeps all processors busy until then."""


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


def test_a_storm_over_workers_on_sqlite_loses_and_repeats_nothing(tmp_path: Path) -> None:
    storm = Storm(kind="worker", store=f"sqlite:///{tmp_path}/runs.db", folder=tmp_path, **RIGHT)

    assert storm.run() == []
    assert storm.done["starts"] >= 10


@pytest.mark.needs("psycopg")
def test_a_storm_over_workers_on_postgresql_loses_and_repeats_nothing(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    assert on_postgres(request, tmp_path, "worker").run() == []


@pytest.mark.needs("psycopg", "dbos")
def test_a_storm_over_dbos_loses_and_repeats_nothing(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    assert on_postgres(request, tmp_path, "dbos").run() == []


@pytest.mark.needs("psycopg")
def test_a_storm_over_machines_that_are_cut_off_and_lost_loses_and_repeats_nothing(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Machines are network namespaces, with clocks that differ by seconds."""
    if reason := namespaces.obstacle():
        pytest.skip(reason)
    tools = postgres_server.binaries()
    if tools is None:
        pytest.skip("needs a PostgreSQL server whose settings may be changed")
    server = postgres_server.Server(tools)  # its own: it listens to the namespaces
    request.addfinalizer(server.remove)
    store = postgres_server.with_options(server.url, schema="chaos")
    with namespaces.machines(server, "chaos") as machines:
        storm = Storm(kind="worker", store=store, folder=tmp_path, machines=machines, **FEW)

        assert storm.run() == []
    assert storm.done["cuts"]
    assert storm.done["losses"]


# In full, each takes a quarter of a minute: one on each kind of host, and with GRAPHRT_FULL=1 all.
@pytest.mark.parametrize("plant", PLANTS if FULL else [no_claims])
def test_a_storm_notices_a_wrong_build_of_workers(plant: Callable[[], None], tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    options = WRONG if FULL else WRONG | {"patience_s": 1}  # what goes wrong without claims is wrong from the beginning
    storm = Storm(kind="worker", store=store, folder=tmp_path, plant=plant.__name__, **options)

    assert any(line.startswith(PLANTS[plant]) for line in storm.run())


@pytest.mark.needs("psycopg", "dbos")
@pytest.mark.parametrize("plant", PLANTS if FULL else [new_ones_only])
def test_a_storm_notices_a_wrong_build_on_postgresql(
    plant: Callable[[], None], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kind = "worker" if plant is no_claims else "dbos"
    storm = on_postgres(request, tmp_path, kind, plant.__name__)

    assert any(line.startswith(PLANTS[plant]) for line in storm.run())
