"""Own every placeholder, as its one writer, and execute the commands of the state machine.

Events come in through `Engine.handle`; the domain makes every decision. At the top of the package: the engine, its
index of placeholders, the executor of commands, and what answers kube-scheduler. `jobs` holds what is known of
Slurm jobs, `submission` submits them, `gangs` places several Pods together.
"""
