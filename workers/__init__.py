"""Celery workers, the outbox relay and the schedule: the only room that knows Celery."""
