"""What keeps one caller's load from the others."""
