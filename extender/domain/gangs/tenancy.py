"""Keep members whom another tenant could have added out of a gang that is known by a name alone.

Any author in a namespace can write the name of a gang on a Pod. So the members of such a gang also have one topmost
controller (it is part of the gang's identity) and one Slurm user, account and QOS, as the policy resolves them.
"""

from __future__ import annotations

from extender.domain.gangs.membership import SHARED_NAMES, Membership
from extender.domain.jobs.job import Charge, JobRequest

Tenant = tuple[str, ...]
"""Slurm's user, group, account and QOS of one member."""


def tenant_of(charged: JobRequest | Charge) -> Tenant:
    """Return to whom the job of this request is charged."""
    person = charged.run_as
    numbers = ("", "") if person is None else (str(person.uid), str(person.gid))
    return (*numbers, charged.account, charged.qos)


def gang_key(membership: Membership, charged: JobRequest | Charge | None) -> str | None:
    """Return the key of a gang. `None`: its tenant is needed and not known, so that the Pod joins none."""
    if charged is None:
        return None if membership.source in SHARED_NAMES else membership.key()
    return membership.key(tenant_of(charged))
