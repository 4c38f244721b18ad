"""Act on the simulated cluster as users, operators, other schedulers and administrators do."""
