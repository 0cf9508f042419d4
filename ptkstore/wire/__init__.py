"""Requests, answers and problems of the HTTP API, version 1: strict, closed, with a limit on every field."""
