"""Models that devices train: tasks, trials and what is measured of them."""
