"""Decide, without I/O, the next step of each placeholder and Slurm node.

The package holds values and functions over values. It imports the standard library only: no I/O, no clock, no logging,
no asyncio, no other package of this project. Time and ids are arguments, and commands are return values.

`translation` makes jobs of Pods, `lifecycle` is the state machine of a placeholder, `nodes` that of a Slurm node, and
`placing` finds the Nodes on which a Pod fits. Modules that several of them use are here: views of Kubernetes objects,
jobs, events and commands, the meaning of Slurm's states, and the identity of a job.
"""
