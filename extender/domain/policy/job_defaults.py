"""What a job gets where its Pod says nothing."""

from __future__ import annotations

from dataclasses import dataclass, fields

from extender.domain.jobs.job import Exclusive, Mode


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """What a job gets where its Pod says nothing. Same meaning and form as in `JobRequest`."""

    mode: Mode | None = None
    account: str = ""
    partition: str = ""
    qos: str = ""
    reservation: str = ""
    wckey: str = ""
    comment: str = ""
    constraints: str = ""
    prefer: str = ""
    licenses: str = ""
    mcs_label: str = ""
    exclusive: Exclusive | None = None
    user_id: str = ""
    """Number or name. SUNK runs everything as `0`; "" runs it as the token's user."""

    group_id: str = ""
    """Number or name; "" with a `user_id` given: the group that comes with that, see `TranslationPolicy.user`."""

    working_dir: str = ""
    time_limit_minutes: int | None = None
    priority: int | None = None
    nice: int | None = None

    def under(self, own: JobDefaults) -> JobDefaults:
        """`own`, completed by these. A group belongs to its user: that of another user is not completed."""
        said = {f.name: getattr(own, f.name) for f in fields(JobDefaults) if getattr(own, f.name) not in (None, "")}
        whole = {f.name: getattr(self, f.name) for f in fields(JobDefaults)}
        if "user_id" in said and "group_id" not in said:
            whole["group_id"] = ""
        return JobDefaults(**(whole | said))
