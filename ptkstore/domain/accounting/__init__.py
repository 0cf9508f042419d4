"""Losses: what they are, how they add up, who pays from which budget, and whose word they are."""
