"""The pure core: what a Pod, a job and a node mean to each other, and what follows from what happened.

Here live values and functions over values, stdlib only: no I/O, no clock, no logging, no asyncio, nothing of the rest
of this project. Time comes in as an argument, ids come in as arguments, and what is to be done goes out as a value.

`translation` makes jobs of Pods, `lifecycle` is the machine of a placeholder, `nodes` that of a node, `placing` says
where a Pod may be. What several of them speak of is here: views of Kubernetes' objects, jobs, events and commands, what
Slurm's words mean, and whose a job is.
"""
