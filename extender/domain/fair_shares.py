"""Represent the fair share of an account or of a user in it, and the limits of its jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FairShare:
    """One line of `sshare -l` and `sacctmgr show assoc`. `None`: unset, without a limit, or not reported."""

    account: str
    user: str = ""
    """"": the account itself."""

    partition: str = ""
    parent: str = ""
    """Of an account."""

    shares: float | None = None
    """Raw; `None` also where those of the parent count."""

    normalized: float | None = None
    """Part of the whole, 0 to 1."""

    usage: float | None = None
    """Part of the whole usage, 0 to 1, with that of the parents."""

    factor: float | None = None
    """Part of the priority of a job, 0 to 1."""

    max_jobs: int | None = None
    max_submit_jobs: int | None = None
    qos: tuple[str, ...] = ()
    default_qos: str = ""


@dataclass(frozen=True, slots=True)
class FairShares:
    """The fair shares of a cluster. `limits_unknown` says why limits are missing; "": they are not."""

    shares: tuple[FairShare, ...]
    limits_unknown: str = ""
