"""How team code is confined: bubblewrap, and what a process gives up."""
