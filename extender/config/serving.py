"""Where we listen: the scheduling routes, the hooks, and what operators look at."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, SecretStr

from extender.config.values import Bind, BindAddress, Duration, Group, Text, WebAddress

LOOPBACK = "127.0.0.1"


class ServerTls(Group):
    """A certificate to serve with. All files are read again when they change."""

    certificate_file: Text = Field(description="Certificate chain, PEM.")
    key_file: Text = Field(description="Its private key, PEM.")
    client_ca_file: Text | None = Field(
        None, description="Clients must show a certificate signed by one of these. Not given: any client is served."
    )


class Http(Group):
    """The routes that kube-scheduler calls. Whoever reaches them can bind Pods: protect them by `tls.clientCaFile`."""

    bind: Bind = Field(BindAddress(LOOPBACK, 8080), description="Address of `/scheduler/filter` and `/scheduler/bind`.")
    tls: ServerTls | None = Field(None, description="Certificate; not given: plain HTTP.")
    max_body: int = Field(
        4 * 1024 * 1024,
        ge=64 * 1024,
        description="Largest request, in bytes. A Pod has at most 1.5 MiB (etcd's limit), a node name 253 bytes.",
    )
    connections: int = Field(
        2048,
        ge=16,
        le=65536,
        description="Most connections to `bind`, and to admission.bind. One more ends the one that has been longest "
        "without a complete request. At least twice the Pods of the largest gang: each `/bind` may hold one.",
    )
    stop_within: Duration = Field(
        10.0, gt=0, description="How long requests under way may take when the process is told to stop."
    )


class Claiming(StrEnum):
    """Whether what the extender writes on Pods can be told from what others write there."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"


class Hooks(Group):
    """What placeholder scripts and node scripts call, and the key that proves what the extender wrote."""

    bind: Bind | None = Field(None, description="Address of `/hooks`. Not given: there are no hooks, polls suffice.")
    url: WebAddress | None = Field(
        None, description="Address of the hooks as Slurm's nodes reach them. Not given: scripts call nobody."
    )
    key: SecretStr | None = Field(
        None, description="Key of the jobs' own tokens and of claims on Pods. For trials; prefer keyFile."
    )
    key_file: Text | None = Field(
        None,
        description="File with the key from which each job's token is made, and the proof of what is written on each "
        "Pod. Several keys, one on each line: the first one signs, all verify. `serve` needs it, unless claims is "
        "unsigned.",
    )
    claims: Claiming = Field(
        Claiming.SIGNED,
        description="signed: the job and node written on a Pod are believed where a proof by the key stands beside "
        "them, else Slurm is asked. unsigned: a key that lives as long as the process; after a restart Slurm is asked "
        "about every Pod on a node, a Pod whose job vanished meanwhile holds no node, and scripts of jobs from before "
        "are not believed.",
    )
    site_key_file: Text | None = Field(
        None,
        description="File with the key that the fence script shows; readable by root alone on the nodes. Not given: "
        "it is not believed.",
    )
    wait: Duration = Field(
        8.0,
        gt=0,
        description="Longest wait of a script for its Pod. Below slurm.killWait, SlurmdTimeout, and the 14 s after "
        "which Slurm preempts the next victim.",
    )
    connections: int = Field(
        1024,
        ge=16,
        le=65536,
        description="Most connections to `bind`. One more ends the one that has been longest without a complete "
        "request.",
    )
    connections_per_address: int = Field(
        256, ge=1, le=65536, description="Most of them from one address: nodes behind one NAT share it."
    )
    warning: Duration = Field(
        60.0,
        ge=0,
        description="How long before its time limit a batch placeholder is warned; slurmctld looks every 30 s.",
    )
    tls: ServerTls | None = Field(None, description="Certificate; not given: plain HTTP, and tokens can be overheard.")


class AdmissionWebhook(Group):
    """The webhook that puts our scheduling gate on new Pods; for Kubernetes before 1.36, later a policy does it."""

    bind: Bind | None = Field(
        None, description="Address of `/admission/mutate`. Not given: there is no webhook. Every replica answers."
    )
    tls: ServerTls | None = Field(
        None, description="Certificate. The API server calls webhooks by HTTPS only; not given: plain HTTP, for trials."
    )


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line looks."""

    JSON = "json"
    TEXT = "text"


class Observability(Group):
    """What operators and their machines look at. Plain HTTP, no secrets; only the level of the log can be changed."""

    health_bind: Bind = Field(BindAddress(LOOPBACK, 8081), description="Address of `/livez`, `/readyz`, `/healthz`.")
    metrics_bind: Bind = Field(BindAddress(LOOPBACK, 8082), description="Address of `/metrics`.")
    partition_label: bool = Field(
        False,
        description="Add the label `partition` to the metrics of pending Pods, CPUs and GPUs, of allocated GPUs, and "
        "of the time that Pods wait. At most 100 partitions get a value of their own.",
    )
    debug_bind: Bind | None = Field(
        BindAddress(LOOPBACK, 8083),
        description="Address of `/debug`, which shows every placeholder's story and this configuration. Keep it on the "
        "loopback interface: `kubectl port-forward` reaches it there. null: off.",
    )
    log_level: LogLevel = Field(LogLevel.INFO, description="Least severity that is logged.")
    log_format: LogFormat = Field(LogFormat.JSON, description="One JSON object a line, or text for people.")
    traces_endpoint: WebAddress | None = Field(
        None,
        description="Where traces are sent by OTLP over HTTP (`/v1/traces` is added); needs the extra `tracing`, which "
        "the image has. Not given: where the environment says (`OTEL_EXPORTER_OTLP_ENDPOINT`), else nowhere.",
    )
