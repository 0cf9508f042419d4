"""Writes versions: their history, their rows online, their views in the registry."""
