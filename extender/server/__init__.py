"""One process from start to end: options and signals, listeners, and the services behind them.

Any part that dies ends the process: limping is worse than starting again.
"""
