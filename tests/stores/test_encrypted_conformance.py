"""An encrypted store satisfies every clause of the store protocol."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphrt.stores.protocol import Store
from graphrt.testing import conformance

KEYS = {"k1": bytes(range(32)), "k0": bytes(range(100, 132))}


@pytest.fixture
def make(tmp_path):
    from graphrt.stores.encrypted import EncryptedStore
    from graphrt.stores.sqlite import SqliteStore

    return lambda: EncryptedStore(SqliteStore(str(tmp_path / "runs.db"), busy_timeout_s=5.0), KEYS)


@pytest.mark.needs("cryptography")
@pytest.mark.parametrize("clause", conformance.CLAUSES, ids=str)
def test_encrypted_store_satisfies_each_clause(clause: conformance.Clause, make: Callable[[], Store]):
    clause(make)
