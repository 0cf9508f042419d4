"""Draws and puts of devices: raw bytes, and nothing in logs and traces."""
