"""Define the facts about an installation. A fact that could not be fetched is `None`, or has an `error`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from extender.config.document import ExtenderConfiguration
from extender.doctor.fence_reader import FenceReader
from extender.doctor.slurm_conf import KnownSlurmConf
from extender.domain.cluster import SlurmSnapshot
from extender.domain.devices.views import ResourceSliceView
from extender.domain.gangs.pod_groups import PodGroupApi
from extender.domain.views import NodeView, PodView

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Address:
    """One address of slurmrestd and the answer to a ping. `error` is "" if the ping succeeded."""

    url: str
    release: str = ""
    api_version: int = 0
    cluster: str = ""
    responding: bool | None = None
    """Whether slurmctld answered slurmrestd. slurmrestd reports a refused token as a slurmctld that does not respond.
    `None`: there was no token for the request."""

    error: str = ""
    unsupported: bool = False
    """The error is that this Slurm is too old."""

    refused: bool = False
    """The error is that the token was refused."""

    unusable_tls: bool = False
    """The error is that the files of slurm.tls cannot be used, so that nothing was sent."""

    remote: bool = False
    """The name belongs to the cluster's network, and the doctor runs outside of it and got no answer."""


@dataclass(frozen=True, slots=True)
class Token:
    """The token for slurmrestd. `source` is the configuration key that names it. `error`: why there is none."""

    source: str
    error: str = ""
    remote: bool = False
    """Its file is not on this machine, as on an administrator's laptop."""

    owner: str = ""
    expires_at: float | None = None
    accepted: bool | None = None
    """Whether slurmctld accepted it; `None`: slurmctld could not be asked."""

    refusal: str = ""
    operates: bool | None = None
    """Whether it may change nodes and jobs of others; `None`: not known."""


@dataclass(frozen=True, slots=True)
class SlurmFacts:
    """The answers of slurmrestd. `trouble`: why facts are missing."""

    addresses: Sequence[Address] = ()
    newest_api: int = 0
    """The newest API version of slurmrestd that this program uses."""

    token: Token = field(default_factory=lambda: Token("token"))
    ahead_s: float | None = None
    """Seconds by which slurmctld's clock is ahead of this machine's."""

    conf: KnownSlurmConf | None = None
    snapshot: SlurmSnapshot = field(default_factory=SlurmSnapshot)
    records: int | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """The API server's `GET /version`, and the user that the doctor is there. `error`: why there is no answer."""

    url: str = ""
    version: str = ""
    user: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource (`pods/status`). `namespace` "": all. `purpose`: what fails without it."""

    verb: str
    group: str
    resource: str
    purpose: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{f' {self.name}' if self.name else ''}{where}"


@dataclass(frozen=True, slots=True)
class AdmissionObjects:
    """Objects that admit Pods; () if the API server has no such kind, `None` if the doctor may not list them."""

    policies: Sequence[Json] | None = None
    bindings: Sequence[Json] | None = None
    webhooks: Sequence[Json] | None = None


@dataclass(frozen=True, slots=True)
class Leader:
    """The holder of an extender's Lease (`namespace/name`), and the scheduler name that it serves."""

    lease: str
    holder: str
    scheduler: str
    alive: bool


@dataclass(frozen=True, slots=True)
class ServedPodGroups:
    """One API group of PodGroups. `may`: the extender's account may list and watch them; `None`: not known."""

    api: PodGroupApi
    served: bool
    may: bool | None = None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Objects of dynamic resource allocation. `None`: the doctor has no access to them, because of `trouble`.

    `may`: the rights of the extender's account to it.
    """

    served: bool
    may: Mapping[Right, bool] | None = None
    slices: tuple[ResourceSliceView, ...] | None = None
    classes: Mapping[str, str] | None = None
    """The extended resource of each DeviceClass; "": none."""

    trouble: str = ""


@dataclass(frozen=True, slots=True)
class KubeFacts:
    """The answers of the API server. `None`: the doctor has no access."""

    server: Server
    ahead_s: float | None = None
    nodes: tuple[NodeView, ...] | None = None
    pods: tuple[PodView, ...] | None = None
    account: str = ""
    may: Mapping[Right, bool] | None = None
    why_not: str = ""
    admission: AdmissionObjects = field(default_factory=AdmissionObjects)
    leaders: tuple[Leader, ...] | None = None
    pod_groups: tuple[ServedPodGroups, ...] | None = None


@dataclass(frozen=True, slots=True)
class SchedulerConfigFile:
    """A KubeSchedulerConfiguration, and its file or ConfigMap. `error`: why it cannot be read."""

    where: str
    document: Json
    error: str = ""


@dataclass(frozen=True, slots=True)
class ExpectedProfile:
    """Requirements of the extender's configuration for kube-scheduler's."""

    scheduler: str
    prefix: str = "/scheduler"
    verbs: tuple[str, str] = ("filter", "bind")
    https: bool = False
    client_certificates: bool = False
    other_profiles: Sequence[str] = ()
    offer_timeout_s: float = 150.0
    bind_timeout_s: float = 30.0
    nodes: int | None = None


@dataclass(frozen=True, slots=True)
class CalledService:
    """A Service that kube-scheduler calls, and the port that it calls."""

    where: str
    namespace: str
    name: str
    port: int
    ports: Sequence[int] | None = None
    """The ports of the Service; `None`: it does not exist."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A Secret or ConfigMap mounted at `folder`. `there` and `keys` are `None` if the doctor may not read it."""

    deployment: str
    kind: str
    name: str
    folder: str
    there: bool | None = None
    keys: frozenset[str] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that the configuration names. `error`: the error of the system when it was read."""

    key: str
    path: str
    error: str = ""
    absent: bool = False
    empty: bool = False
    mounted: bool = True
    """Its folder exists on this machine; on a laptop the folders of the Pod do not."""


@dataclass(frozen=True, slots=True)
class PolicyReading:
    """The result of reading the policy file; `rules` counts its rules. `remote`: it is not on this machine."""

    path: str
    faults: tuple[str, ...] = ()
    remote: bool = False
    rules: int = 0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of a group, `http.tls`. `error`: why it cannot be served. `absent`: it is not on this machine."""

    key: str
    file: str
    error: str = ""
    absent: bool = False
    expires_at: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    """The TLS error of a client that calls by a name; "" if it accepts the certificate."""

    chain: str | None = None
    """The TLS error of a client that trusts the configured authority; "": none. `None`: no authority is configured."""


@dataclass(frozen=True, slots=True)
class HealthLine:
    """One line of the extender's `/readyz?verbose`."""

    name: str
    ok: bool
    text: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class RunningExtender:
    """The running process. `error`: it did not answer at its configured address. `filters`: calls of /filter so far."""

    error: str = ""
    lines: Sequence[HealthLine] = ()
    filters: int | None = None
    leads: bool | None = None
    quiet_s: float | None = None
    """Seconds since the last call of /filter, or since it became possible."""

    waiting_s: Sequence[float] = ()
    """Ages of the Pods that kube-scheduler should call for: without Node and gate, and not rejected by its plugins."""


@dataclass(frozen=True, slots=True)
class HooksAsConfigured:
    """The configuration of the hooks, and the answer of hooks.url here: a status in `answer`, or 0 and `error`."""

    bound: bool
    url: str = ""
    tls: bool = False
    key_file: bool = False
    site_key_file: bool = False
    answer: int = 0
    hooks_answered: bool = False
    """The hooks answered, and not another program."""

    error: str = ""


@dataclass(frozen=True, slots=True)
class ProbedFence:
    """The nodes of an ended job whose Epilog called the hooks with the site key, and those whose Epilog did not.

    `no_key`: no site key is configured, so that no call counts. `trouble`: why the extender could not be asked.
    """

    called: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    no_key: bool = False
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a job that called the hooks. `state` is the last state in Slurm, `code` the script's exit code."""

    url: str
    job_id: int = 0
    node: str = ""
    state: str = ""
    reason: str = ""
    code: int | None = None
    error: str = ""
    fence: ProbedFence | None = None
    """The calls of the fence script at the end of the job; `None`: the job did not end by itself."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the checks judge."""

    config: ExtenderConfiguration
    slurm: SlurmFacts
    kube: KubeFacts
    now: float
    """This machine's clock, in seconds since the epoch."""

    conf: KnownSlurmConf | None
    schedulers: Sequence[SchedulerConfigFile] | None
    """kube-scheduler's configurations; `None`: the doctor may not read those of the cluster."""

    expected: ExpectedProfile
    empty_files: Sequence[str]
    """Files given as kube-scheduler's configuration that contain none."""

    services: Sequence[CalledService]
    mounts: Sequence[Mount] | None
    paths: Sequence[tuple[str, str]]
    """Key and path of every file that the configuration names."""

    files: Sequence[NamedFile]
    policy: PolicyReading | None
    certificates: Sequence[Certificate]
    process: RunningExtender
    hooks: HooksAsConfigured
    probe: ProbeResult | None
    """`None`: no probe was requested."""

    in_cluster: bool = False
    """The extender runs in a Pod: its Deployment is there, or the doctor itself runs in a Pod."""

    fence_reader: FenceReader | None = None
    """`None`: it is not known how the extender names itself on Nodes."""

    devices: DeviceFacts | None = None
    """`None`: the configuration maps no device, or the API server does not answer."""

    reported: Collection[str] = ()
    """Sentences of the subjects that were checked before."""
