"""Simulation only: significances are known exactly here, which no service may do (differences.md B6)."""
