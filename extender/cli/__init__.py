"""The command line. `serve` runs the service; the other commands prepare, check or remove an installation.

`uninstall`, `generate certificates` in Secrets, `generate cpu-order --node` and `doctor --submit-probe` write to
Kubernetes or Slurm. The others write at most files.

One file for each command, or for those that belong together. A command imports its own large modules when it runs:
the Kubernetes client takes half a second, and a process that serves does not load the simulator.
"""

from extender.cli.program import main

__all__ = ["main"]
