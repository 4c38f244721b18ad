"""Own every placeholder, as its one writer, and execute the commands of the state machine.

Events come in through `Engine.handle`; the domain makes every decision. `engine_context` names what the engine uses of
the outside. The dispatcher and the executor carry out commands; the modules named after jobs hold what is known of
Slurm jobs, submit them and end them. What uses the engine, gangs and the answers to kube-scheduler included, is in
`extender/controllers`.
"""
