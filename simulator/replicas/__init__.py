"""Extender processes of the simulated cluster: start, kill, stop, cut off and restart them."""
