"""A show of a minute: the extender as a process of its own against the simulated cluster, in real time, on sockets.

`play` is what happens, `stage` what it happens on, `picture` what is shown of it, `program` the whole.
"""
