"""Tasks of Celery's prefork pool, with a broker of files; the parent has called before it forks."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

import paceline

root = os.environ["CELERY_ROOT"]
app = Celery("tasks", broker="filesystem://", backend=f"file://{root}/results")
app.conf.broker_transport_options = {
    "data_folder_in": f"{root}/in",
    "data_folder_out": f"{root}/in",
    "processed_folder": f"{root}/done",
}
limiter = paceline.Limiter(os.environ["PACELINE_ADDR"])
with limiter.slot("mine", model="m") as at_import:
    assert at_import.path == "served"


@app.task  # type: ignore[untyped-decorator]
def work() -> list[Any]:
    """Says who served the slot, and the process."""
    with limiter.slot("mine", model="m") as slot:
        return [slot.path, os.getpid()]
