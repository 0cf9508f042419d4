"""The Celery application: messages are wake-up hints, the jobs are in SQL (differences.md F8)."""

from __future__ import annotations

from celery import Celery

QUEUE = "ptk"


def make_app(broker_url: str) -> Celery:
    """Make a Celery application that keeps no results, needs no acknowledgement and survives a lost broker."""
    app = Celery("ptk", broker=broker_url, include=["workers.tasks"])
    app.conf.update(
        result_backend=None,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_default_queue=QUEUE,
        task_serializer="json",
        accept_content=["json"],
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_proc_alive_timeout=60.0,
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
            "retry_on_timeout": True,
        },
        task_publish_retry=False,
        enable_utc=True,
    )
    return app
