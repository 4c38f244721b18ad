"""`slurm-extender doctor`: what of Slurm, Kubernetes and this configuration does not go together, said before it hurts.

`checks` judge facts and touch nothing: each says ok, warning, wrong or unseen, what was seen, and what to do. `gather`
fetches the facts, as much of them as whoever asks may see. Nothing is changed anywhere; only the probe, which has to be
asked for, submits a job, and ends it.
"""
