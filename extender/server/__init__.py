"""One process from start to end: options and signals, listeners, and the services behind them.

If a part fails, the process ends and is restarted: a process that lacks a part would stop placing Pods unnoticed.
"""
