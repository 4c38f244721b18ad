"""One process from start to end: options and signals, doors, and what works behind them.

Any part that dies ends the process: limping is worse than starting again.
"""
