"""The connection to slurmrestd, and facts of slurm.conf."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from extender.config.values import Duration, Group, SlurmAddress, Text
from extender.domain.jobs.job import RunAs
from extender.domain.translation.forms import UINT32_LARGEST

ROOT = RunAs(0, 0)
"""The same on every system."""

LEAST_READ_S = 25.0


class SlurmTls(Group):
    """Trust and identity for https addresses of slurmrestd, or of a proxy before it."""

    ca_file: Text | None = Field(None, description="Certificates to trust instead of the system's.")
    certificate_file: Text | None = Field(None, description="The extender's certificate chain, for mutual TLS.")
    key_file: Text | None = Field(None, description="Its private key, where it is not in the same file.")

    @model_validator(mode="after")
    def _key_with_certificate(self) -> Self:
        if self.key_file and not self.certificate_file:
            raise ValueError("keyFile is given without certificateFile: give both, or certificateFile alone")
        return self


class SlurmTimeouts(Group):
    """Longest times of the parts of one request to slurmrestd."""

    connect: Duration = Field(5.0, gt=0, description="Establishing a connection.")
    read: Duration = Field(
        30.0,
        ge=LEAST_READ_S,
        description="Waiting for the answer; at least 25 s. Without slurmctld, slurmrestd takes 20 s to report it; "
        "a shorter wait would make an outage look like a lost answer.",
    )
    write: Duration = Field(30.0, gt=0, description="Sending the request.")


class SlurmUser(Group):
    """A user of the Slurm cluster."""

    name: Text = Field(description="Name, as slurmctld knows it.")
    uid: int = Field(ge=0, le=UINT32_LARGEST, description="Its number.")
    gid: int = Field(ge=0, le=UINT32_LARGEST, description="The number of its primary group.")


class SlurmGroup(Group):
    """A group of users of the Slurm cluster."""

    name: Text = Field(description="Name.")
    gid: int = Field(ge=0, le=UINT32_LARGEST, description="Its number.")


class Slurm(Group):
    """slurmrestd, the token for it, and those facts of slurm.conf that no API shows before Slurm 26.05."""

    addresses: Annotated[tuple[SlurmAddress, ...], Field(min_length=1)] = Field(
        ("http://127.0.0.1:6820",),
        description="slurmrestd's addresses in order of preference. The first that answers is used until it fails.",
    )
    token: SecretStr | None = Field(
        None,
        description="The token itself. For trials: it stands in the file or in the process list, and is never renewed.",
    )
    token_file: Text | None = Field(
        None, description="File with the token, read again when it changes and after a refusal. Recommended."
    )
    jwt_key_file: Text | None = Field(
        None,
        description="File with the HS256 key of `AuthAltParameters=jwt_key=`; tokens are minted from it. Every user "
        "who reads this file is root on the Slurm cluster.",
    )
    user: Text = Field(
        "slurm",
        description="The owner of the token, and for jwtKeyFile the user it is minted for. Must be root or SlurmUser: "
        "no other user may cancel jobs of others.",
    )
    users: tuple[SlurmUser, ...] = Field(
        (),
        description="Users who can be named in `user-id` and `userId`; Slurm's API takes numbers only. By the entry of "
        "`user` (root's is known) a job with that one's numbers can be allocated at once; as any other it is queued.",
    )
    groups: tuple[SlurmGroup, ...] = Field(
        (), description="Groups that can be named in `group-id` and `groupId`; Slurm's API takes numbers only."
    )
    tls: SlurmTls = Field(SlurmTls(), description="TLS towards slurmrestd.")
    timeouts: SlurmTimeouts = Field(SlurmTimeouts(), description="Time-outs of one request.")
    connections: int = Field(
        8, ge=1, le=8, description="Maximum number of connections; slurmrestd serves 124 for all its clients together."
    )
    kill_wait: Duration = Field(
        30.0, gt=0, description="slurm.conf's KillWait: the time of a job's processes between TERM and KILL."
    )
    send_user_signal: bool = Field(
        False,
        description="slurm.conf has `PreemptParameters=send_user_signal`: batch placeholders learn of preemption "
        "at once. External nodes in partitions with GraceTime need it: without it slurmctld asks a node without slurmd "
        "at each such preemption, which is NOT_RESPONDING then until slurmctld is restarted (26.05.5).",
    )
    preempting_qos: tuple[Text, ...] = Field(
        (),
        description="QOS that may preempt others. The extender tries no immediate allocation with them: even a "
        "refused one preempts. "
        "Nor is it for a Pod that names no QOS, where some are given here: Slurm may choose one of these.",
    )
    default_partition: Text | None = Field(
        None, description="The partition of jobs that name none, where slurmrestd does not mark it (before 26.05)."
    )

    @property
    def caller(self) -> RunAs | None:
        """Return user and group of every request to slurmrestd; `None`: the site does not list the token's user."""
        users = {user.name: RunAs(user.uid, user.gid) for user in self.users}
        return users.get(self.user, ROOT if self.user == "root" else None)

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        given = [
            name
            for name, value in (
                ("token", self.token),
                ("tokenFile", self.token_file),
                ("jwtKeyFile", self.jwt_key_file),
            )
            if value is not None
        ]
        if len(given) != 1:
            raise ValueError(
                f"{' and '.join(given) or 'none'} given: exactly one of token, tokenFile and jwtKeyFile is needed"
            )
        return self

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        for key, entries in (("users", self.users), ("groups", self.groups)):
            names = [entry.name for entry in entries]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{key} names {', '.join(twice)} more than once: one entry for each {key[:-1]}")
        return self
