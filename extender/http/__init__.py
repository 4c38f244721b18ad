"""HTTP servers: kube-scheduler's extender protocol, hooks for scripts, health, metrics and debugging.

A route parses the request, calls a service (`http.services`), and answers from memory; only `/bind` waits, for one
request to the API server. No scheduling route waits for Slurm.
"""
