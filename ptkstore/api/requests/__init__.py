"""The steps of every request: who asks, its body, its bounds, its answer."""
