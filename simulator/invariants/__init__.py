"""Check invariants of every run against the state of the simulated servers."""
