"""Imports litellm like the adapter does: for processes that are forked from one that has it."""

from __future__ import annotations

from graphrt.harness.litellm import _client

_client.load()
