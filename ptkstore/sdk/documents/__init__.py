"""What the client knows, as documents of the HTTP API and back again."""
