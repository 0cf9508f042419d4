"""Faults: processes killed or stalled at every step, judged by a checker that shares no code with them."""
