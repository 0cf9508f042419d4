"""What parent, child and team code say to each other."""
