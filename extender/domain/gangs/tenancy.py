"""Keep members whom another tenant could have added out of a gang that is known by a name alone.

Any author in a namespace can write the name of a gang on a Pod. So the members of such a gang also have one topmost
controller (it is part of the gang's identity) and one Slurm user, account and QOS, as the policy resolves them.
"""

from __future__ import annotations

from extender.domain.jobs.job import Charge, JobRequest

Tenant = tuple[str, ...]
"""Slurm's user, group, account and QOS of one member."""


def tenant_of(charged: JobRequest | Charge) -> Tenant:
    """Return to whom the job of this request is charged."""
    person = charged.run_as
    numbers = ("", "") if person is None else (str(person.uid), str(person.gid))
    return (*numbers, charged.account, charged.qos)
