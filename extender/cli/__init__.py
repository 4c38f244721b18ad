"""The command line: `serve` runs the service, everything else looks without touching anything.

One file for each command, or for those that belong together. What only one command needs, and is large, is imported
inside of it: the Kubernetes client takes half a second, and nothing that serves has the simulator in its memory.
"""

from extender.cli.program import main

__all__ = ["main"]
