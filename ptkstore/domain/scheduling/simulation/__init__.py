"""A simulator of schedulers: it replays arrivals against them, from public numbers alone."""
