"""How several replicas agree on the one that writes."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from extender.config.values import Duration, Group, Text
from extender.domain.election import ElectionTiming

_TIMING = ElectionTiming()


class LeaderElection(Group):
    """Several replicas: one leads and writes, the others are warm and pass calls on. The rules are client-go's."""

    enabled: bool = Field(False, description="Whether there may be other replicas. Off, this process always writes.")
    namespace: Text = Field("slurm-extender", description="Namespace of the Lease.")
    lease_name: Text = Field("slurm-extender", description="Name of the Lease.")
    identity: Text | None = Field(
        None,
        description="Name of this replica, for people; a part that no other process has is added. Not given: the name "
        "of the host.",
    )
    advertise: Text | None = Field(
        None,
        description="Host name or address at which other replicas reach this one. Not given: the host of `http.bind`, "
        "which must not be every interface then.",
    )
    ca_file: Text | None = Field(
        None,
        description="Authorities that a leader's certificate is held to. Not given: those of `http.tls.clientCaFile`, "
        "else the system's.",
    )
    tls_server_name: Text | None = Field(
        None, description="Name that a leader's certificate must have. Not given: the address at which it is reached."
    )
    lease_duration: Duration = Field(
        _TIMING.lease,
        ge=1,
        description="How long the others wait after the last sign of life of a leader. Longer than renewDeadline.",
    )
    renew_deadline: Duration = Field(
        _TIMING.renew_deadline,
        ge=0.5,
        description="A leader that could not renew for so long writes nothing more. Longer than 1.2 times retryPeriod.",
    )
    retry_period: Duration = Field(
        _TIMING.retry, ge=0.1, description="Pause between two renewals; up to a fifth is added by chance."
    )

    @property
    def timing(self) -> ElectionTiming:
        """The three durations."""
        return ElectionTiming(self.lease_duration, self.renew_deadline, self.retry_period)

    @model_validator(mode="after")
    def _as_client_go_wants_it(self) -> Self:
        if self.timing.faults:
            raise ValueError("; ".join(self.timing.faults))
        return self
