"""What follows from each state of a Slurm job: the tables that the state machine executes.

`slurm_states` says what Slurm's states and reasons mean, `transition_table` what the workload does about it, `pod_ends`
how a running Pod is ended. `docs/slurm-states.md` is generated from them.
"""
