"""Processes that are fed, limited, watched and cleared away."""
