"""Inject faults, drawn from the seed, by class. `fault_source` has what they share."""
