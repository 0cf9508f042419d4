"""Spans of ids, sent to an OpenTelemetry collector."""

from ptkstore.adapters.tracing.spans import OtlpTraces

__all__ = ["OtlpTraces"]
