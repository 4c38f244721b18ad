"""Demonstrate the extender for one minute: a separate process against the simulated cluster, in real time, on sockets.

`scenario` lists the steps, `environment` executes them, `table` renders the state, `program` runs everything.
"""
