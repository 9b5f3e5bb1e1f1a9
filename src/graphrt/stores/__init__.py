"""Storage of threads: the store protocol, and the stores that come with graphrt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphrt.events.status import Status
from graphrt.stores.filters import (
    DueFilter,
    Filter,
    FollowerFilter,
    MailFilter,
    QuestionFilter,
    ScheduleFilter,
    ThreadFilter,
)
from graphrt.stores.memory import MemoryStore
from graphrt.stores.protocol import Store
from graphrt.stores.urls import open_store
from graphrt.stores.values import (
    Claim,
    Commit,
    Head,
    Labels,
    LiveBatch,
    MailMessage,
    NewBatch,
    OpenQuestion,
    Question,
    Record,
    StoredSchedule,
    StoredSnapshot,
    StoredThread,
    StoreFinding,
)
from graphrt.stores.verbs import Verification

if TYPE_CHECKING:
    from graphrt._codec import register as register_type
    from graphrt.stores.encrypted import EncryptedStore
    from graphrt.stores.postgres import PostgresStore
    from graphrt.stores.sqlite import SqliteStore
    from graphrt.stores.tenants import TenantStore
    from graphrt.stores.wrapper import StoreWrapper

__all__ = [
    "Claim",
    "Commit",
    "DueFilter",
    "EncryptedStore",
    "Filter",
    "FollowerFilter",
    "Head",
    "Labels",
    "LiveBatch",
    "MailFilter",
    "MailMessage",
    "MemoryStore",
    "NewBatch",
    "OpenQuestion",
    "PostgresStore",
    "Question",
    "QuestionFilter",
    "Record",
    "ScheduleFilter",
    "SqliteStore",
    "Status",
    "Store",
    "StoreFinding",
    "StoreWrapper",
    "StoredSchedule",
    "StoredSnapshot",
    "StoredThread",
    "TenantStore",
    "ThreadFilter",
    "Verification",
    "open_store",
    "register_type",
]


# A program does not pay for the modules of stores that it does not use.
_HOMES: Final = {
    "EncryptedStore": "graphrt.stores.encrypted",
    "PostgresStore": "graphrt.stores.postgres",
    "SqliteStore": "graphrt.stores.sqlite",
    "StoreWrapper": "graphrt.stores.wrapper",
    "TenantStore": "graphrt.stores.tenants",
    "register_type": "graphrt._codec",
}


def __getattr__(name: str) -> Any:
    """Import the class or function *name* at first access (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        from graphrt.errors._langgraph_names import no_export

        raise no_export(__name__, name)
    from importlib import import_module

    # `register_type` declares how values of a user's class are stored.
    return getattr(import_module(home), "register" if name == "register_type" else name)
