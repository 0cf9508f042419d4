"""Simulations of streams whose PTKs are scheduled by `budgeting`."""
