"""A Kubernetes control plane on one machine: etcd, kube-apiserver, kube-controller-manager, kwok, kube-schedulers."""

import json
import shutil
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lab import build_kubernetes, build_slurm, registry
from lab.apiserver import apiserver, audited
from lab.build_kubernetes import newest_minor
from lab.cache import cache_folder
from lab.clock import wait_until
from lab.controller_manager import controller_manager
from lab.credentials import (
    ADMIN,
    CONTROLLER_MANAGER,
    KWOK,
    SCHEDULER,
    User,
    default_users,
    issue,
    kubeconfig,
    kubelet_user,
)
from lab.errors import LabError
from lab.etcd import Etcd
from lab.kubectl import kubectl
from lab.kwok import kwok
from lab.managed_service import ManagedService
from lab.ports import Ports
from lab.probe import decoded, request
from lab.process import Daemon
from lab.sandbox import Sandbox
from lab.scheduler import DEFAULT_CONFIG, scheduler

ETCD_FROM = "24.11"
"""The Slurm release whose chroot etcd is taken from."""


ACCOUNT_TOKEN_S = 86_400

BY_KWOK = "lab.slurm-extender.io/kubelet"
"""Label of the Nodes that kwok manages, where others have kubelets."""


class Kubernetes(ManagedService):
    """One control plane, up between ``with`` and its end; several may run at once.

    ``users`` come on top of the lab's own (an administrator, the control plane, the extender's ServiceAccounts): the
    API server reads its token file once, when it starts. Without ``controllers``, or where none is built of this minor,
    there is no kube-controller-manager: Nodes are not tainted and nothing makes Pods but the caller. ``audit`` writes a
    log, see :meth:`audit_events`. ``feature_gates`` and ``runtime_config`` are options of the API server alone.
    ``kubelets`` names the Nodes that real kubelets register; kwok leaves them alone.
    """

    def __init__(
        self,
        *,
        version: str = newest_minor(),
        users: Sequence[User] = (),
        controllers: bool = True,
        audit: bool = False,
        feature_gates: str = "",
        runtime_config: str = "",
        kubelets: Sequence[str] = (),
        workdir: Path | None = None,
    ) -> None:
        super().__init__()
        self.minor = version
        self.version = ""
        self._kubelets = tuple(kubelets)
        own = (*default_users(), *map(kubelet_user, kubelets))
        self._users = {user.name: user for user in (*own, *users)}
        self._controllers = controllers and "kube-controller-manager" in build_kubernetes.programs(version)
        self._audit = audit
        self._feature_gates = feature_gates
        self._runtime_config = runtime_config
        self._workdir = workdir
        self._schedulers = 0

    def _start(self) -> None:
        wanted = build_kubernetes.kubernetes_build(self.minor)
        self._binaries = build_kubernetes.build(wanted)
        own = "kubectl" in build_kubernetes.programs(self.minor)
        newest = build_kubernetes.kubernetes_build(newest_minor())
        self._kubectl = self._binaries if own else build_kubernetes.build(newest)
        kwok_binaries = build_kubernetes.build(build_kubernetes.kwok_build())
        chroot = build_slurm.build(build_slurm.release(ETCD_FROM))
        self.version = build_kubernetes.required_version(wanted.module / "go.mod", "k8s.io/kubernetes")
        temporary = self._workdir is None
        workdir = self._workdir or Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kubernetes-lab-"))
        )
        self.home = Path(tempfile.mkdtemp(prefix="kubernetes-", dir=workdir.resolve()))
        self._ports = self._stack.enter_context(Ports(cache_folder() / "ports"))
        self._certificate = issue(self.home / "certificates")
        self._sandbox = self._stack.enter_context(Sandbox(chroot, self.home))
        self._stack.enter_context(
            registry.entered(
                f"kubernetes {self.version}", self._sandbox.init_pid, self.home, chroot, temporary=temporary
            )
        )
        self.etcd = Etcd(self._sandbox, self.home, self._ports)
        self.etcd.launch()
        self.apiserver = apiserver(
            self._sandbox,
            self._binaries,
            self.home,
            self._ports,
            etcd_url=self.etcd.url,
            users=list(self._users.values()),
            admin=self._users[ADMIN],
            certificate=self._certificate,
            audit=self._audit,
            feature_gates=self._feature_gates,
            runtime_config=self._runtime_config,
            disabled_admission=() if self._controllers else ("TaintNodesByCondition",),
            kubelets=bool(self._kubelets),
        )
        self.etcd.wait_ready()
        self.apiserver.start()
        self._forwarded = self._ports.take()
        self.kwok = kwok(
            self._sandbox,
            kwok_binaries,
            self.home,
            self._ports,
            kubeconfig=self.kubeconfig_for(KWOK),
            forwarded=self._forwarded,
            drop_leases=self._drop_node_leases,
            selector=f"{BY_KWOK}=kwok" if self._kubelets else "",
        )
        self.kwok.launch()
        self.controller_manager: Daemon | None = None
        if self._controllers:
            self.controller_manager = controller_manager(
                self._sandbox,
                self._binaries,
                self.home,
                self._ports,
                kubeconfig=self.kubeconfig_for(CONTROLLER_MANAGER),
                certificate=self._certificate,
            )
            self.controller_manager.start()
        self.kwok.wait_ready()

    # Addresses and credentials

    @property
    def url(self) -> str:
        """Return the address of kube-apiserver; it keeps its port over restarts."""
        return self.apiserver.url

    @property
    def ca_file(self) -> Path:
        """Return the certificate of the authority that signed those of every component."""
        return self._certificate.ca_file

    def token(self, user: str = ADMIN) -> str:
        """Return the bearer token of a registered user; raise LabError for an unknown user."""
        return self._user(user).token

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.kubeconfig_for(ADMIN)

    def kubeconfig_for(self, user: str, groups: Sequence[str] | None = None) -> Path:
        """Return a kubeconfig file for a registered user; raise LabError if it is unknown or has other ``groups``."""
        found = self._user(user)
        if groups is not None and set(groups) != set(found.groups):
            raise LabError(f"user {user} was registered with groups {list(found.groups)}, not {list(groups)}")
        path = self.home / "kubeconfigs" / f"{user.replace(':', '-')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(kubeconfig(self.url, self.ca_file, found))
        return path

    @property
    def kubectl_path(self) -> Path:
        """Return the kubectl of this Kubernetes version, else the newest."""
        return self._kubectl / "kubectl"

    # Talking to it

    def kubectl(self, *arguments: str, stdin: str | None = None, user: str = ADMIN) -> str:
        """Run kubectl as ``user`` and return what it printed; raises LabError if it fails."""
        return kubectl(self._kubectl, self.kubeconfig_for(user), arguments, stdin=stdin)

    def api(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str = ADMIN,
        content_type: str = "application/json",
    ) -> tuple[int, Any]:
        """Send one request to kube-apiserver, as fast as it gets; return the status and the decoded answer."""
        headers = {"Authorization": f"Bearer {self.token(user)}", "Content-Type": content_type}
        status, answer = request(method, f"{self.url}{path}", headers=headers, body=body, ca_file=self.ca_file)
        return status, decoded(answer)

    @property
    def pods_port(self) -> int:
        """Return the port to which ``kubectl port-forward`` to any Pod leads; nothing listens there by default."""
        return self._forwarded

    def audit_events(self) -> list[dict[str, Any]]:
        """Return the requests of clients so far (needs ``audit=True``), oldest first."""
        if not self._audit:
            raise LabError("there is no audit log: start with Kubernetes(audit=True)")
        return [json.loads(line) for line in audited(self.home)]

    def add_node(
        self,
        name: str,
        *,
        cpus: int = 64,
        memory: str = "500Gi",
        gpus: int = 0,
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """Register a Node as a kubelet would; kwok makes it Ready a moment later (:meth:`wait_nodes_ready`)."""
        size = {"cpu": str(cpus), "memory": memory, "pods": str(pods), "ephemeral-storage": "1Ti"}
        if gpus:
            size["nvidia.com/gpu"] = str(gpus)
        own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        if self._kubelets:
            own[BY_KWOK] = "kwok"
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**own, **(labels or {})}, "annotations": dict(annotations or {})},
            "spec": {"taints": [dict(taint) for taint in taints]},
            "status": {
                "capacity": size,
                "allocatable": size,
                "nodeInfo": _node_info(self.version),
                # Where kube-apiserver asks for logs and ports of its Pods.
                "daemonEndpoints": {"kubeletEndpoint": {"Port": urlsplit(self.kwok.url).port}},
            },
        }
        status, answer = self.api("POST", "/api/v1/nodes", node)
        if status != 201:
            raise LabError(f"Node {name} was refused ({status}): {answer.get('message')}")

    def wait_nodes_ready(self, names: Sequence[str] = (), *, timeout_s: float = 60) -> None:
        """Wait until every Node, ``names`` among them, is Ready and no longer tainted by its own condition."""
        wait_until(
            lambda: self._nodes_ready(names), "every Node is Ready", timeout_s=timeout_s, detail=self._describe_nodes
        )

    def start_scheduler(
        self, config_text: str = DEFAULT_CONFIG, *, user: str = SCHEDULER, feature_gates: str = "", name: str = ""
    ) -> Daemon:
        """Start a kube-scheduler with that KubeSchedulerConfiguration (kubeconfig and leader election filled in)."""
        self._schedulers += 1
        daemon = scheduler(
            self._sandbox,
            self._binaries,
            self.home,
            self._ports,
            name=name or f"kube-scheduler-{self._schedulers}",
            config_text=config_text,
            kubeconfig=self.kubeconfig_for(user),
            certificate=self._certificate,
            feature_gates=feature_gates,
        )
        daemon.start()
        return daemon

    def take_port(self) -> int:
        """Return a free port on loopback that is this control plane's until its end."""
        return self._ports.take()

    def component(
        self,
        name: str,
        command: Sequence[str],
        *,
        ready: Callable[[], bool],
        url: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Daemon:
        """Return one more program of this control plane, not started yet; it ends with the control plane."""
        log = self.home / "log" / f"{name}.log"
        return Daemon(name, self._sandbox, command, log=log, url=url, ready=ready, environment=environment)

    def serving_files(self, folder: Path) -> Path:
        """Put the certificate for loopback into ``folder`` as ``tls.crt`` and ``tls.key``; return the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for source, name in ((self._certificate.certificate, "tls.crt"), (self._certificate.key, "tls.key")):
            shutil.copy(source, folder / name)
        return folder

    def ca_bundle(self) -> str:
        """Return the authority as webhooks and definitions have it: base64 of the PEM file."""
        return b64encode(self.ca_file.read_bytes()).decode()

    def kubeconfig_of_account(self, namespace: str, name: str) -> Path:
        """Return a kubeconfig with a token of a ServiceAccount that exists; raises LabError if it gets none."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        status, answer = self.api("POST", path, {"spec": {"expirationSeconds": ACCOUNT_TOKEN_S}})
        if status != 201:
            raise LabError(f"ServiceAccount {namespace}/{name} got no token ({status}): {answer}")
        user = User(f"{namespace}-{name}", token=answer["status"]["token"])
        file = self.home / "kubeconfigs" / f"{user.name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_text(kubeconfig(self.url, self.ca_file, user))
        return file

    def start_apiserver(self) -> None:
        """Start kube-apiserver and wait until it is ready; etcd kept everything."""
        self.apiserver.start()

    def stop_apiserver(self) -> None:
        """Send SIGTERM; return when the port is free."""
        self.apiserver.stop()

    def kill_apiserver(self) -> None:
        """Send SIGKILL, as a crash."""
        self.apiserver.kill()

    def restart_apiserver(self) -> None:
        """Stop and start kube-apiserver; every watch ends."""
        self.apiserver.restart()

    def restore(self, snapshot: str, *, bump: bool = True) -> None:
        """Restore a snapshot of etcd (``etcd.save()``); all watches end, and clients list everything again.

        Without ``bump`` clients do not notice: kwok and the controllers are started again, other clients are not.
        """
        stale = () if bump else tuple(daemon for daemon in (self.kwok, self.controller_manager) if daemon is not None)
        for daemon in (*stale, self.apiserver, self.etcd):
            daemon.stop()
        self.etcd.restore(snapshot, bump=bump)
        for daemon in (self.etcd, self.apiserver, *stale):
            daemon.start()

    # How it is made

    def _user(self, name: str) -> User:
        if name not in self._users:
            known = ", ".join(self._users)
            raise LabError(f"no user {name!r}: pass it to Kubernetes(users=[User(...)]). Registered: {known}")
        return self._users[name]

    def _drop_node_leases(self) -> None:
        status, answer = self.api("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
        if status != 200:
            raise LabError(f"the leases of the Nodes could not be deleted ({status}): {answer.get('message')}")

    def _nodes_ready(self, names: Sequence[str]) -> bool:
        status, answer = self.api("GET", "/api/v1/nodes")
        if status != 200 or set(names) - {node["metadata"]["name"] for node in answer["items"]}:
            return False
        return all(_is_ready(node) for node in answer["items"])

    def _describe_nodes(self) -> str:
        try:
            return self.kubectl("get", "nodes", "-o", "wide")
        except (LabError, subprocess.SubprocessError) as error:
            return str(error)


def _is_ready(node: Mapping[str, Any]) -> bool:
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", [])
    )
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return ready and not taints & {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def _node_info(version: str) -> dict[str, str]:
    fields = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage")
    return {
        **dict.fromkeys(fields, "lab"),
        "containerRuntimeVersion": "lab://0",
        "kubeletVersion": version,
        "kubeProxyVersion": version,
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
