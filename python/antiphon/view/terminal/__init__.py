"""Results on a terminal, a file for each kind."""
