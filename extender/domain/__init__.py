"""Decide, without I/O, the next step of each placeholder and Slurm node.

The package holds values and functions over values. It imports the standard library and the host lists of
`slurmclient` only: no I/O, no clock, no logging, no asyncio. Time and ids are arguments, and commands are return
values.

`translation` makes jobs of Pods, `lifecycle` is the state machine of a placeholder, `nodes` that of a Slurm node, and
`placing` finds the Nodes on which a Pod fits. `job_outcomes` has the meaning of Slurm's states, `jobs` the views and
the identity of a job. Modules that several of them use are here: views of Kubernetes objects, events and commands.
"""
