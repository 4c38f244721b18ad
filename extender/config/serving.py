"""The listeners of a replica, and how several replicas elect the one that writes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from pydantic import Field, SecretStr, model_validator

from extender.config.values import Bind, BindAddress, Duration, Group, Text, WebAddress
from extender.domain.election import LONGEST_LEASE_S, ElectionTiming

LOOPBACK = "127.0.0.1"


class ServerTls(Group):
    """A certificate to serve with. All files are read again when they change."""

    certificate_file: Text = Field(description="Certificate chain, PEM.")
    key_file: Text = Field(description="Its private key, PEM.")
    client_ca_file: Text | None = Field(
        None, description="Clients must present a certificate signed by one of these. Unset: any client is served."
    )


class Http(Group):
    """The routes that kube-scheduler calls. Every client of them can bind Pods: protect them by `tls.clientCaFile`."""

    bind: Bind = Field(BindAddress(LOOPBACK, 8080), description="Address of `/scheduler/filter` and `/scheduler/bind`.")
    tls: ServerTls | None = Field(None, description="Certificate; unset: plain HTTP.")
    max_request_bytes: int = Field(
        4 * 1024 * 1024,
        ge=64 * 1024,
        description="Maximum size of a request, in bytes. A Pod has at most 1.5 MiB (etcd's limit), a node name "
        "253 bytes.",
    )
    connections: int = Field(
        2048,
        ge=16,
        le=131072,
        description="Maximum number of connections to `bind`, and to admission.bind, there at most half of them from "
        "one address. One more ends the one that has been longest without a complete request. At least twice "
        "`gangs.largest`: each `/bind` may hold one.",
    )
    bind_timeout: Duration = Field(
        30.0,
        ge=5.0,
        le=600.0,
        description="Time after which kube-scheduler gives up a `/bind`: the `httpTimeout` of its entry with "
        "`bindVerb`, or less. The call of a member of a gang is held almost as long, until all members are accepted.",
    )
    shutdown_timeout: Duration = Field(10.0, gt=0, description="Time for requests under way when the process stops.")


class AllocationProofs(StrEnum):
    """Protection of the annotations of the extender against those that others write."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"


class Hooks(Group):
    """The hooks that placeholder scripts and node scripts call, and the key that proves what the extender wrote."""

    bind: Bind | None = Field(None, description="Address of `/hooks`. Unset: there are no hooks, polls suffice.")
    url: WebAddress | None = Field(
        None, description="Address of the hooks as Slurm's nodes reach them. Unset: scripts make no calls."
    )
    key: SecretStr | None = Field(
        None, description="Key of the jobs' own tokens and of allocation proofs on Pods. For trials; prefer keyFile."
    )
    key_file: Text | None = Field(
        None,
        description="File with the key from which each job's token is made, and the proof of what is written on each "
        "Pod. Several keys, one on each line: the first one signs, all verify. `serve` needs it, unless "
        "allocationProofs is unsigned.",
    )
    allocation_proofs: AllocationProofs = Field(
        AllocationProofs.SIGNED,
        description="signed: the job and node written on a Pod are trusted where a proof by the key stands beside "
        "them, else Slurm is asked. unsigned: a key that lives as long as the process; after a restart Slurm is asked "
        "about every Pod on a node, a Pod whose job vanished meanwhile holds no node, and scripts of jobs from before "
        "are not trusted.",
    )
    site_key_file: Text | None = Field(
        None,
        description="File with the key that the fence script presents; readable by root alone on the nodes. Unset: "
        "it is not trusted, and mode `auto` makes batch jobs.",
    )
    wait: Duration = Field(
        8.0,
        gt=0,
        description="Maximum time for which a script waits for its Pod. Below slurm.killWait, SlurmdTimeout, "
        "and the 14 s after "
        "which Slurm preempts the next victim.",
    )
    connections: int = Field(
        1024,
        ge=16,
        le=65536,
        description="Maximum number of connections to `bind`. One more ends the one that has been longest "
        "without a complete "
        "request.",
    )
    connections_per_address: int = Field(
        256,
        ge=1,
        le=65536,
        description="Maximum number of connections from one address: nodes behind one NAT share it.",
    )
    warning: Duration = Field(
        60.0,
        ge=0,
        description="Time before its time limit at which a batch placeholder is warned; slurmctld looks every 30 s.",
    )
    tls: ServerTls | None = Field(None, description="Certificate; unset: plain HTTP; tokens are not encrypted.")


class AdmissionWebhook(Group):
    """The webhook that puts the scheduling gate on new Pods; for Kubernetes before 1.36, later a policy does it."""

    bind: Bind | None = Field(
        None, description="Address of `/admission/mutate`. Unset: there is no webhook. Every replica answers."
    )
    tls: ServerTls | None = Field(
        None, description="Certificate. The API server calls webhooks by HTTPS only; unset: plain HTTP, for trials."
    )


class LogLevel(StrEnum):
    """Levels of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """Formats of a log line."""

    JSON = "json"
    TEXT = "text"


class Console(Group):
    """The page `/debug/console`: queue, nodes and timelines of Pods, for a browser (`kubectl slurm ui`)."""

    enabled: bool = Field(
        True,
        description="Serve the page. With `scope.namespaces` it is served only where `namespaces` is given as well.",
    )
    namespaces: tuple[Text, ...] = Field((), description="Show the Pods of these namespaces alone. Not given: of all.")

    def is_served(self, scope: tuple[str, ...] | None) -> bool:
        """Return whether the page exists. `scope` is `scope.namespaces`."""
        return self.enabled and (scope is None or bool(self.namespaces))


class Observability(Group):
    """Listeners for operators and their machines. Plain HTTP, no secrets; only the level of the log can be changed."""

    health_bind: Bind = Field(BindAddress(LOOPBACK, 8081), description="Address of `/livez`, `/readyz`, `/healthz`.")
    metrics_bind: Bind = Field(BindAddress(LOOPBACK, 8082), description="Address of `/metrics`.")
    partition_label: bool = Field(
        False,
        description="Add the label `partition` to the metrics of pending Pods, CPUs and GPUs, of allocated GPUs, and "
        "of the time that Pods wait. At most 100 partitions get a value of their own.",
    )
    debug_bind: Bind | None = Field(
        BindAddress(LOOPBACK, 8083),
        description="Address of `/debug`, which shows every placeholder's history and this configuration. Keep it on "
        "the loopback interface: `kubectl port-forward` reaches it there. null: off.",
    )
    console: Console = Console()
    log_level: LogLevel = Field(LogLevel.INFO, description="Minimum severity of the log.")
    log_format: LogFormat = Field(LogFormat.JSON, description="One JSON object a line, or text for reading.")
    traces_endpoint: WebAddress | None = Field(
        None,
        description="Where traces are sent by OTLP over HTTP (`/v1/traces` is added); needs the extra `tracing`, which "
        "the image has. Unset: where the environment says (`OTEL_EXPORTER_OTLP_ENDPOINT`), else nowhere.",
    )

    def exports_traces(self, environ: Mapping[str, str]) -> bool:
        """Return whether an endpoint is configured, here or by the environment variables of OpenTelemetry."""
        if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return False
        named = (environ.get(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT") for kind in ("", "TRACES_"))
        return self.traces_endpoint is not None or any(named)


_TIMING = ElectionTiming()


class LeaderElection(Group):
    """Several replicas: one leads and writes, the others are warm and pass calls on. The rules are client-go's.

    A leader that starts again in its Pod needs not wait for the Lease, but for its last writes: the difference of
    `leaseDuration` and `renewDeadline`.
    """

    enabled: bool = Field(
        False, description="Elect a leader among several replicas. If off, this process always writes."
    )
    namespace: Text = Field("slurm-extender", description="Namespace of the Lease.")
    lease_name: Text = Field("slurm-extender", description="Name of the Lease.")
    identity: Text | None = Field(
        None,
        description="Readable name of this replica; a part that no other process has is added. Unset: the name "
        "of the host.",
    )
    advertise: Text | None = Field(
        None,
        description="Host name or address at which other replicas reach this one. Unset: the host of `http.bind`, "
        "which must not be every interface then.",
    )
    ca_file: Text | None = Field(
        None,
        description="Authorities that verify a leader's certificate. Unset: those of `http.tls.clientCaFile`, "
        "else the system's.",
    )
    tls_server_name: Text | None = Field(
        None, description="Name that a leader's certificate must have. Unset: the address at which it is reached."
    )
    lease_duration: Duration = Field(
        _TIMING.lease,
        ge=1,
        le=LONGEST_LEASE_S,
        description="Time for which the others wait after the last renewal of a leader. Longer than renewDeadline, at "
        "most 3 minutes. A longer duration that is written into the Lease counts as 3 minutes.",
    )
    renew_deadline: Duration = Field(
        _TIMING.renew_deadline,
        ge=0.5,
        description="After this time without a renewal a leader stops writing. Longer than 1.2 times retryPeriod.",
    )
    retry_period: Duration = Field(
        _TIMING.retry, ge=0.1, description="Pause between two renewals, plus a random part of up to a fifth."
    )

    @property
    def timing(self) -> ElectionTiming:
        """Return the three durations."""
        return ElectionTiming(self.lease_duration, self.renew_deadline, self.retry_period)

    @model_validator(mode="after")
    def _as_client_go_wants_it(self) -> Self:
        if self.timing.faults:
            raise ValueError("; ".join(self.timing.faults))
        return self
