"""Find settings of slurm.conf that let Slurm allocate a node while a Pod is still on it, as far as Slurm shows them."""

from __future__ import annotations

from extender.domain.cluster import SlurmPartition, SlurmSnapshot
from extender.domain.rules import may_be_preempted

NO_LIMIT = 65534
"""Written by `scontrol show config` for none."""


def too_short(limit_s: int, longest_grace_s: float) -> tuple[str, ...]:
    """Return a sentence if Slurm ends PrologSlurmctld before the longest grace of a Pod is over.

    Slurm then requeues the job that waits, or cancels it if it has no script.
    """
    if limit_s >= min(longest_grace_s, NO_LIMIT):
        return ()
    return (
        f"PrologEpilogTimeout is {limit_s} s, and a Pod may take {longest_grace_s:g} s to end (limits.maxGrace): Slurm "
        "ends the wait of the next job by then, and requeues or cancels it",
    )


def preempt_words(partition: SlurmPartition) -> list[str]:
    """Return the words of a partition's PreemptMode."""
    return partition.preempt_mode.upper().replace("|", ",").split(",")


def beside_its_victim(partition: SlurmPartition) -> str:
    """Return a sentence where Slurm runs a preemptor beside the Pod that it preempts, in every mode; "" elsewhere."""
    if {"GANG", "SUSPEND"}.isdisjoint(preempt_words(partition)):
        return ""
    return (
        f"partition {partition.name}: PreemptMode has GANG: Slurm runs the preemptor beside the Pod that it preempts, "
        "and no fence prevents this"
    )


def weak(slurm: SlurmSnapshot) -> tuple[str, ...]:
    """Return a sentence for each partition whose nodes cannot be fenced, or only at a price.

    slurmrestd shows PreemptMode from 26.05 on; GANG is a word beside the mode (`slurm.conf(5)`).
    """
    problems = []
    for partition in sorted(slurm.partitions.values(), key=lambda one: one.name):
        if sentence := beside_its_victim(partition):
            problems.append(sentence)
        elif (
            "UNKNOWN" not in preempt_words(partition)
            and not partition.grace_time_s
            and may_be_preempted(slurm, partition.name)
        ):
            problems.append(
                f"partition {partition.name}: its jobs are preempted without GraceTime: Slurm may preempt a second "
                "one while the Pod of the first ends, and on nodes without slurmd only PrologSlurmctld holds the "
                "preemptor"
            )
    return tuple(problems)
