"""A Pod of ours: what it asks of its node, what is written on it and read from it, and what it is told."""
