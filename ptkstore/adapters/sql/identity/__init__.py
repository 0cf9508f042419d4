"""Teams, tokens, grants and the audit trail in SQL."""
