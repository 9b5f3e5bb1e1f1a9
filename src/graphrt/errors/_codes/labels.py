"""Errors about finding threads: tenants, titles, tags, and the pages of the inbox; and about stores without mail."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

BAD_TENANT = ErrorCode(
    "bad-tenant",
    InputError,
    "A tenant must have a name, not {given}.",
    known="a name is a str of 1 to 64 of the characters A-Z a-z 0-9 _ . : @ + = -, the first of them a letter, a digit or _",
    fix="Give the tenant such a name; if yours cannot be written in these characters, use a hash of it.",
)
TENANT_OF_TENANT = BAD_TENANT.variant(
    "The store already belongs to the tenant {first!r}, so it has no threads of {tenant!r}.",
    fix="Make it of the store that the tenants share.",
)
BAD_LABEL = ErrorCode("bad-label", InputError, "{option}= cannot be {given}.", fix="Pass {wanted}.")
STORE_LACKS = ErrorCode(
    "store-lacks",
    InputError,
    "The store cannot {doing}: {store:a_type} does not offer {offer!r}.",
    known="the methods that belong to it are described at `graphrt.stores.Store.offers`",
    fix="Use a store that comes with graphrt, or add the methods to yours and {offer!r} to its `offers`.",
)
