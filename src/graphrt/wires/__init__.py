"""Projections of threads and journals to wire formats: pure functions, without a server.

Experimental: names may change in a minor version (docs/reference/versions.md).

`plain_data` converts results, states, entries, questions and live items to JSON documents; `document_schemas` has their
schemas. The command line and the server write the same documents. `conversation` folds a journal into the content of a
chat; `ui_messages` encodes it for chats of the AI SDK, and `ag_ui` for AG-UI front ends.
"""
