"""What comes of each thing that Slurm or Kubernetes can say: the tables that `lifecycle` is held to.

`outcomes` says what Slurm's words mean, `by_job` what that does to a placeholder, `ends` what it does to a Pod that
runs; `by_pod` begins with what becomes of the Pod. `docs/slurm-states.md` and `docs/pod-ends.md` are printed from them.
"""
