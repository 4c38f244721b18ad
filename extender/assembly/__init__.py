"""Assemble one process: adapters, engine, controllers. `server` runs it.

`running_parts` lists every part that runs and its subscriptions; a new one is added there. `node_controllers`,
`pod_controllers`, `job_controllers` and `device_controllers` build them. `process` is the whole; `informers` and
`adapters` connect it to Kubernetes and Slurm.
"""

from extender.assembly.keys import KeyFileError, require_key
from extender.assembly.process import Assembly
from extender.assembly.running_parts import all_parts

__all__ = ["Assembly", "KeyFileError", "all_parts", "require_key"]
