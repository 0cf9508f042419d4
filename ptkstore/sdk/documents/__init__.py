"""Things of the client as documents of the HTTP API, and back again."""
