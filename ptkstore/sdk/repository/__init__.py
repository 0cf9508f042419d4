"""The repository of a team: declarations, its code, and what they would change in a store."""
