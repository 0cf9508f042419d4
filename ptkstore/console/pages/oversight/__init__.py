"""Who may do what in the whole store, and who did what."""
