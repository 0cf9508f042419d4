"""Commands of a team's repository."""
