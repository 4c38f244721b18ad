"""A Slurm in memory: slurmctld's records, scheduler and ends, and slurmrestd's answers about them.

It runs on the time of the event loop it is used on, so on virtual time too. What it does was seen on Slurm 24.11 and
26.05; the contract tests ask both it and them the same questions. Where a client can meet an oddity, it is as odd.
"""
