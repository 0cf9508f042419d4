"""What can be done in the console: each action asks first, and calls the use case that the HTTP API calls."""
