"""Statistical tests: promised noise and promised privacy, with stated false-alarm rates."""
