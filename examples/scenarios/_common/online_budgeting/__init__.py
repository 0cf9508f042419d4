"""Online budgeting with significances that are known exactly, which no service may know (differences.md B6)."""
