"""What happens to every request: who asks, its body, its bounds, its answer."""
