"""Actions of the console. Each action asks first, and calls the use case that the HTTP API calls."""
