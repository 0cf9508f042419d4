"""Inside bubblewrap: the program that runs team code."""
