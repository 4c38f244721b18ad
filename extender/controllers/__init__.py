"""Turn watches and polls into events for the engine.

The controllers report changes of Pods and jobs and decide nothing about a placeholder. `nodes` has the controllers of
Slurm nodes and Nodes, `foreign_pods` those of Pods that Slurm did not place. `gangs` places several Pods together,
`devices` writes ResourceClaims, and `scheduling` answers kube-scheduler.
"""
