"""Commands about devices that learn from their own rows: `ptk device`."""
