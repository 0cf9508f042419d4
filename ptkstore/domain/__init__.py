"""Rules without input, output, clock or randomness."""
