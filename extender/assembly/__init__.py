"""Assemble one process: adapters, engine, controllers. `server` runs it.

`process` is the whole; `informers` and `adapters` connect it to Kubernetes and Slurm. The controllers of nodes, Pods
and jobs have one file each; a new controller is added there, with the tasks that it runs.
"""

from extender.assembly.controllers import parts
from extender.assembly.keys import KeyFileError, require_key
from extender.assembly.process import Assembly

__all__ = ["Assembly", "KeyFileError", "parts", "require_key"]
