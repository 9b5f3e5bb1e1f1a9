"""Projections of threads and journals to what goes over a wire: pure functions, without a server.

Experimental: names may change in a minor version (docs/reference/versions.md).

`plain_data` makes JSON documents of results, states, entries, questions and live items; `document_schemas` has their
schemas. The command line and the server write the same documents. `conversation` folds a journal into what a chat
shows; `ui_messages` spells that for chats of the AI SDK, `ag_ui` for front ends of AG-UI.
"""
