"""A report service: an HTTP server that starts runs and shows them, and workers that drive them.

Three processes share one database, and each of them may be restarted at any time:

    uvicorn --factory examples.background.server:app     needs: pip install fastapi uvicorn
    python -m examples.background.worker                 as many as you like
    curl -N localhost:8000/runs/<id>/events              any number of clients

`REPORTS_STORE` names the database; it is `sqlite:///reports.db` by default.
"""
