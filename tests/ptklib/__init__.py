"""Tests of the library, without the service."""
