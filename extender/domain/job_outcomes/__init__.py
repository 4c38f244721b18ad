"""Tables of what follows from each state of a Slurm job; the state machine executes them.

`slurm_states` says what Slurm's states and reasons mean, `transition_table` what the workload does about it, `pod_ends`
how a running Pod is ended. `docs/reference/states.md` is generated from them.
"""
