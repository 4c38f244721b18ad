"""Partitions: can their nodes be held, and where do jobs go that name none?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from extender.doctor.finding import Finding, ok, unseen, warning, wrong
from extender.doctor.slurm_conf import KnownSlurmConf
from extender.domain.cluster import SlurmSnapshot
from extender.domain.nodes.fences import weak
from extender.domain.policy.named import guarded_partitions
from extender.domain.policy.selectors import fits

CHECK = "partitions"
_NAMED = 5
"""Partitions of which a line tells; the number of the others stands behind them."""


def partitions(picture: SlurmSnapshot) -> Iterator[Finding]:
    """What `domain.nodes.fences` says of each, as findings."""
    found = picture.partitions.values()
    if not found:
        yield wrong(CHECK, "Slurm has none that this token may see", "no job can start: see `scontrol show partition`")
        return
    sentences = weak(picture)
    for said in sentences:
        if "GANG" in said:
            yield wrong(CHECK, said, "PreemptMode=OFF, CANCEL or REQUEUE on it")
        else:
            yield warning(CHECK, said, "GraceTime on it, longer than the grace of most Pods")
    unknown = sorted(one.name for one in found if "UNKNOWN" in one.preempt_mode)
    if unknown:
        yield unseen(
            CHECK,
            f"PreemptMode of {', '.join(unknown)} is not shown before Slurm 26.05",
            "`scontrol show partition | grep -E 'PartitionName|PreemptMode'`, or --slurm-conf with slurm.conf itself",
        )
    if not any(one.default for one in found):
        yield warning(
            CHECK,
            "none is known as the default one: slurmrestd marks it from 26.05 on",
            "name it in slurm.defaultPartition, or the partition of all jobs in jobs.defaults.partition",
        )
    if not sentences and not unknown:
        yield ok(CHECK, f"{len(found)}, none of which lets a node be given away under a Pod")


def who_may_use(picture: SlurmSnapshot, listed: Sequence[str]) -> Iterator[Finding]:
    """Say which partitions Slurm keeps for some, and what Pods may do with them.

    `listed` is `jobs.partitions`. The extender asks as an administrator, so that Slurm itself refuses no Pod.
    """
    for one in picture.partitions.values():
        if one.default and one.reserved_for:
            yield warning(
                CHECK,
                f"every Pod may use the default one, {one.name}, which has {', '.join(one.reserved_for)}",
                "let jobs.defaults.partition name an open one, or say in a policy whose Pods may use it",
            )
    guarded = guarded_partitions(picture) or {}
    open_to_all = {name: why for name, why in guarded.items() if fits(name, listed)}
    closed = {name: why for name, why in guarded.items() if name not in open_to_all}
    if open_to_all:
        yield ok(CHECK, f"any Pod may name {_shortly(open_to_all)}, because jobs.partitions allows it")
    if closed:
        yield ok(CHECK, f"without a rule of the policy no Pod may name {_shortly(closed)}")


def _shortly(guarded: Mapping[str, str]) -> str:
    said = [f"{name} ({why})" for name, why in sorted(guarded.items())]
    more = len(said) - _NAMED
    return ", ".join(said[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def with_modes(picture: SlurmSnapshot, conf: KnownSlurmConf | None) -> SlurmSnapshot:
    """The picture with the PreemptMode of partitions of which slurmrestd did not tell it, from slurm.conf where seen.

    A partition that says none has that of the cluster (`slurm.conf(5)`); which do is told by the file alone.
    """
    of_all = None if conf is None else conf.words("PreemptMode")
    if conf is None or of_all is None or (of_all and not conf.complete):
        return picture
    inherited = ",".join(sorted(of_all)) or "OFF"
    told = {
        name: replace(one, preempt_mode=conf.partition_modes.get(name, inherited).upper())
        if "UNKNOWN" in one.preempt_mode
        else one
        for name, one in picture.partitions.items()
    }
    return replace(picture, partitions=told)
