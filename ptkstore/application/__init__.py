"""Use cases: one module, one verb. They never call each other."""
