"""The demo: the main job end to end on one machine, over taxi trips."""
