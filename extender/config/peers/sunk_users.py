"""What SUNK does without being told, and what has to be said here for the same."""

from __future__ import annotations

from extender.config.peers.plan import ImportPlan

SUNK = "SUNK's defaults"


def as_in_sunk(plan: ImportPlan) -> None:
    """Jobs run as root, and authors of Pods may say otherwise."""
    plan.put(("jobs", "defaults", "userId"), "0", SUNK)
    plan.put(("jobs", "defaults", "groupId"), "0", SUNK)
    anybody_may(plan, SUNK)
    plan.note(
        SUNK,
        "a Pod whose grace is not below KillWait - 5 s is taken here; jobs.strictGrace: true refuses it as SUNK does",
    )
    plan.note(
        SUNK, "the lock of Nodes (sunk.coreweave.com/lock) is nodes.lock here, off until it is set (docs/nodes.md)"
    )
    plan.note(
        SUNK,
        "where slurmd runs in Pods, nodes.slurmdPods.labels has to say by which labels these are known (docs/nodes.md)",
    )


def anybody_may(plan: ImportPlan, source: str) -> None:
    """Peers obey every annotation; here a site says which of those that need an administrator's token."""
    plan.put(("jobs", "allow"), ["user-id", "group-id", "priority"], source)
    plan.note(
        source,
        "jobs.allow lets every author of Pods be any user of Slurm, as before; docs/policy.md says how to narrow that",
    )
    for key in ("partitions", "accounts", "qos", "reservations", "mcsLabels"):
        plan.put(("jobs", key), ["*"], source)
    plan.put(("jobs", "underAccounting"), "warn", source)
    plan.note(
        source,
        "jobs.partitions, accounts, qos, reservations and mcsLabels let every author of Pods name any, and "
        "jobs.underAccounting lets Slurm count less than a Pod uses, as before; docs/policy.md says how to narrow that",
    )
