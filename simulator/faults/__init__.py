"""What goes wrong there, drawn from the seed, by class. `fault` is what all of it has in common."""
