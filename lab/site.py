"""A whole site: one Slurm, one Kubernetes, the shipped kube-scheduler profile, and the extender between them."""

import json
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from lab import manifests
from lab.build_kubernetes import newest_minor
from lab.build_slurm import build as build_slurm
from lab.build_slurm import release as release_named
from lab.cache import cache_folder
from lab.clock import elapsed, pause, wait_until
from lab.credentials import EXTENDER, User
from lab.errors import LabError
from lab.extender import PROGRAM, Addresses, configuration, extender, log_entries
from lab.kube import ETCD_FROM, Kubernetes
from lab.managed_service import ManagedService
from lab.pods import pod
from lab.ports import Ports
from lab.probe import decoded, request
from lab.process import Daemon, log_tail
from lab.sandbox import Sandbox
from lab.slurm import Machines, Slurm
from lab.topology import KubeNode, Topology, standard

T = TypeVar("T")

LIVE = "PENDING,RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED"
_SQUEUE = "".join(f"{field}\x1f" for field in ("%i", "%j", "%T", "%P", "%N", "%r"))
"""Each field with an end of its own, since a job's name may hold lines."""

_PAIR = re.compile(r"(?:^|\s)([A-Z][A-Za-z:/_]*)=(.*?)(?=\s+[A-Z][A-Za-z:/_]*=|\s*$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One line of squeue."""

    job_id: int
    name: str
    state: str
    partition: str
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class PodRef:
    """A Pod that was created."""

    namespace: str
    name: str
    uid: str

    @property
    def path(self) -> str:
        """Return its path at the API server."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Values of ``--feature-gates`` and ``--runtime-config`` of kube-apiserver."""

    feature_gates: str = ""
    runtime_config: str = ""


class Site(ManagedService):
    """Everything up between ``with`` and its end; the extender is a process with exactly the shipped rights.

    ``config`` is laid over the extender's configuration, group by group. ``topology`` is :func:`lab.topology.standard`
    of the release unless given. ``accounting`` is as for :class:`lab.slurm.Slurm`, ``kubernetes`` (a minor) and
    ``audit`` as for :class:`lab.kube.Kubernetes`; ``api_options`` are those of its API server, ``users`` its further
    users.
    """

    slurm: Slurm
    kube: Kubernetes
    extender: Daemon
    scheduler: Daemon

    def __init__(
        self,
        slurm_release: str = "24.11",
        *,
        topology: Topology | None = None,
        config: Mapping[str, Mapping[str, Any]] | None = None,
        accounting: bool = False,
        kubernetes: str = newest_minor(),
        audit: bool = False,
        api_options: ApiOptions = ApiOptions(),
        users: Sequence[User] = (),
        manifests_folder: Path = manifests.BASE,
        workdir: Path | None = None,
    ) -> None:
        super().__init__()
        self.release = slurm_release
        self.topology = topology or standard(slurm_release)
        self._accounting = accounting
        self._minor = kubernetes
        self._audit = audit
        self._api_options = api_options
        self._users = tuple(users)
        self._config = dict(config or {})
        self._manifests_folder = manifests_folder
        self._workdir = workdir

    def _start(self) -> None:
        self.slurm = self._stack.enter_context(self._slurm())
        self.kube = self._stack.enter_context(self._kubernetes())
        self._register_nodes()
        documents = manifests.shipped(self.kube, self._manifests_folder)
        manifests.apply_rights(self.kube, documents)
        self._start_extender()
        account, gates = manifests.scheduler_deployment(documents)
        profile = manifests.scheduler_profile(documents, f"http://127.0.0.1:{self.addresses.scheduling}/scheduler")
        self.scheduler = self.kube.start_scheduler(profile, user=account, feature_gates=gates, name="slurm-scheduler")

    def _slurm(self, machines: Machines | None = None) -> Slurm:
        topology = self.topology
        return Slurm(
            release=self.release,
            nodes=topology.nodes,
            external_nodes=topology.external_nodes,
            partitions=topology.partitions,
            config=topology.slurm_config,
            files=topology.slurm_files,
            accounting=self._accounting,
            machines=machines,
            workdir=self._workdir,
        )

    def _kubernetes(self, kubelets: Sequence[str] = ()) -> Kubernetes:
        return Kubernetes(
            version=self._minor,
            users=self._users,
            audit=self._audit,
            feature_gates=self._api_options.feature_gates,
            runtime_config=self._api_options.runtime_config,
            kubelets=kubelets,
            workdir=self._workdir,
        )

    def _register_nodes(self) -> None:
        for node in self.topology.kube_nodes:
            self._add_node(node)
        self.kube.wait_nodes_ready()

    def _add_node(self, node: KubeNode) -> None:
        like = node.like
        self.kube.add_node(node.name, cpus=like.cpus, memory=f"{like.memory_mb}Mi", gpus=like.gpus, labels=node.labels)

    def _start_extender(self) -> None:
        self.home = self.kube.home / "extender"
        self.home.mkdir()
        chroot = build_slurm(release_named(ETCD_FROM))
        self._sandbox = self._stack.enter_context(Sandbox(chroot, self.home))
        taken = Addresses.take(self._stack.enter_context(Ports(cache_folder() / "ports")))
        # A port-forward to its Pod, if a test makes one, leads to its /debug.
        self.addresses = replace(taken, debug=self.kube.pods_port)
        self.write_token(self.slurm.token("root"))
        key = self.home / "hooks.key"
        key.touch(mode=0o600)
        key.write_text(secrets.token_hex(32))
        self.config_path = self.home / "config.yaml"
        self.config_path.write_text(self.configuration(self._config))
        self.extender = extender(self._sandbox, self.home, self.config_path, self.addresses)
        self.extender.start()

    # The extender

    def configuration(self, *overrides: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the text of a configuration file for this site's extender; the later override wins, key by key."""
        merged: dict[str, dict[str, Any]] = {}
        for override in overrides:
            for group, keys in override.items():
                merged[group] = {**merged.get(group, {}), **keys}
        return configuration(
            self.addresses,
            self.home,
            slurm_url=self.slurm.rest_url,
            kubeconfig=self.kube.kubeconfig_for(EXTENDER),
            overrides=merged,
        )

    def reconfigure(self, *overrides: Mapping[str, Mapping[str, Any]], more: str = "") -> None:
        """Start the extender again with these laid over the site's own configuration; with none, as it was.

        ``more`` is YAML that is appended.
        """
        self.config_path.write_text(self.configuration(self._config, *overrides) + more)
        self.extender.restart()

    def another_extender(self, home: Path, config: Path, addresses: Addresses) -> Daemon:
        """Return one more process beside the site's own; it is not started yet."""
        return extender(self._sandbox, home, config, addresses)

    def refused_configuration(self, text: str) -> str:
        """Return the program's error about a configuration; raise LabError if the program accepts it."""
        path = self.home / "refused.yaml"
        path.write_text(text)
        done = subprocess.run(
            [str(PROGRAM), "serve", "--config", str(path)], capture_output=True, text=True, check=False, timeout=60
        )
        if done.returncode == 0:
            raise LabError(f"the extender accepted this configuration:\n{text}")
        return done.stdout + done.stderr

    def uninstall(self, *options: str) -> tuple[int, str]:
        """Run ``slurm-extender uninstall`` with the site's configuration and rights; its exit code and its words."""
        command = [str(PROGRAM), "uninstall", "--config", str(self.config_path), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def write_token(self, token: str) -> None:
        """Put a Slurm token where the extender reads it."""
        path = self.home / "slurm.token"
        fresh = path.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(token)
        fresh.rename(path)

    def kill_extender(self) -> None:
        """Send SIGKILL, as a crash."""
        self.extender.kill()

    def stop_extender(self) -> None:
        """Send SIGTERM, as an ordinary end."""
        self.extender.stop()

    def start_extender(self) -> None:
        """Start it and wait until it is ready."""
        self.extender.start()

    def restart_extender(self) -> None:
        """Stop it in order, start it, wait until it is ready."""
        self.extender.restart()

    def extender_log(self) -> list[dict[str, Any]]:
        """Return the log so far, oldest first."""
        return log_entries(self.extender.log)

    def debug(self, uid: str) -> dict[str, Any] | None:
        """Return the history of a Pod's placeholder, or None if it has none."""
        status, answer = request("GET", f"http://127.0.0.1:{self.addresses.debug}/debug/placeholders/{uid}")
        found: dict[str, Any] | None = decoded(answer) if status == 200 else None
        return found

    def gang(self, uid: str) -> dict[str, Any] | None:
        """Return what the extender shows of a Pod's gang; `None` if it shows none, or does not run."""
        try:
            status, answer = request("GET", f"http://127.0.0.1:{self.addresses.debug}/debug/gangs/{uid}")
        except OSError:
            return None
        found: dict[str, Any] | None = decoded(answer) if status == 200 else None
        return found

    def metric(self, name: str) -> float:
        """Return the value of a metric of the extender, over all labels, or for those in ``name``: ``a{b="c"}``."""
        _, answer = request("GET", f"http://127.0.0.1:{self.addresses.metrics}/metrics")
        said = [line.rpartition(" ") for line in answer.decode().splitlines()]
        full = f"slurm_extender_{name}"
        values = [float(value) for key, _, value in said if full in {key, key.partition("{")[0]}]
        if not values:
            raise LabError(f"the extender has no metric slurm_extender_{name}")
        return sum(values)

    def confirm_mass_deletion(self) -> None:
        """Send SIGUSR1: an administrator confirms that what is missing is really gone."""
        os.kill(self.extender.pid, signal.SIGUSR1)

    def post_to_extender(self, path: str, body: object) -> tuple[int, Any]:
        """POST to the scheduling routes as kube-scheduler does; returns the status and the decoded answer."""
        status, answer = request("POST", f"http://127.0.0.1:{self.addresses.scheduling}/scheduler/{path}", body=body)
        return status, decoded(answer)

    # Kubernetes

    def apply(self, text: str) -> None:
        """Run ``kubectl apply`` as the administrator."""
        self.kube.kubectl("apply", "-f", "-", stdin=text)

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST an object as the administrator; what came of it. Raises LabError if it is refused."""
        status, answer = self.kube.api("POST", path, body)
        if status != 201:
            raise LabError(f"POST {path} was refused ({status}): {answer.get('message')}")
        made: dict[str, Any] = answer
        return made

    def namespace(self, name: str) -> str:
        """Make a namespace and return its name."""
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def pod(self, name: str, namespace: str = "default", **options: Any) -> PodRef:
        """Create a Pod; ``options`` as for :func:`lab.pods.pod`. Raises LabError if it is refused."""
        made = self.create(f"/api/v1/namespaces/{namespace}/pods", pod(name, namespace, **options))
        return PodRef(namespace, name, made["metadata"]["uid"])

    def read(self, ref: PodRef) -> dict[str, Any] | None:
        """Return the Pod as it is, or None when it is gone or another one has its name."""
        status, found = self.kube.api("GET", ref.path)
        if status == 404 or found["metadata"]["uid"] != ref.uid:
            return None
        pod_now: dict[str, Any] = found
        return pod_now

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        """Return every Pod of a namespace."""
        found: list[dict[str, Any]] = self.kube.api("GET", f"/api/v1/namespaces/{namespace}/pods")[1]["items"]
        return found

    def delete(self, ref: PodRef) -> None:
        """Ask for the end of a Pod; harmless when it is gone."""
        self.kube.api("DELETE", ref.path)

    def annotate(self, ref: PodRef, annotations: Mapping[str, str | None]) -> None:
        """Set annotations; None takes one away."""
        self.merge(ref.path, {"metadata": {"annotations": dict(annotations)}})

    def patch_node(self, name: str, patch: Mapping[str, Any]) -> None:
        """Merge-patch a Node (labels, ``spec.unschedulable``, taints)."""
        self.merge(f"/api/v1/nodes/{name}", patch)

    def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Merge-patch the object at ``path``; return it as it is then. Raises LabError if the API server refuses."""
        status, answer = self.kube.api("PATCH", path, patch, content_type="application/merge-patch+json")
        if status != 200:
            raise LabError(f"{path} was not changed ({status}): {answer.get('message')}")
        changed: dict[str, Any] = answer
        return changed

    def node_of(self, ref: PodRef) -> str:
        """Return the Node a Pod is bound to, or ""."""
        found = self.read(ref)
        return found["spec"].get("nodeName", "") if found else ""

    def events(self, ref: PodRef) -> list[tuple[str, str]]:
        """Reason and text of every Event about a Pod."""
        path = f"/apis/events.k8s.io/v1/namespaces/{ref.namespace}/events?limit=500"
        items = self.kube.api("GET", path)[1]["items"]
        return [(item["reason"], item.get("note", "")) for item in items if item["regarding"].get("uid") == ref.uid]

    def history(self, ref: PodRef, since: str) -> list[dict[str, Any]]:
        """Return every version of a Pod after the resource version ``since``; the last may be that of its end."""
        query = urlencode({"watch": "true", "resourceVersion": since, "timeoutSeconds": 1})
        headers = {"Authorization": f"Bearer {self.kube.token()}"}
        url = f"{self.kube.url}/api/v1/namespaces/{ref.namespace}/pods?{query}"
        _, answer = request("GET", url, headers=headers, ca_file=self.kube.ca_file)
        found = [json.loads(line)["object"] for line in answer.splitlines()]
        return [pod for pod in found if pod["metadata"].get("uid") == ref.uid]

    # Slurm

    def squeue(self, states: str = LIVE) -> list[QueuedJob]:
        """Return the jobs of these states (``all``: also those that ended), as slurmctld shows them."""
        found = []
        text = self.slurm.run("squeue", "-h", "-a", "-t", states, "-o", _SQUEUE)
        for record in text.removesuffix("\n").removesuffix("\x1f").split("\x1f\n") if text.strip() else ():
            job_id, name, state, partition, node, reason = (part.strip() for part in record.split("\x1f"))
            found.append(QueuedJob(int(job_id), name, state, partition, node, reason))
        return found

    def scontrol_show_job(self, job_id: int) -> dict[str, str]:
        """Return ``scontrol show job -o``, by key."""
        text = self.slurm.run("scontrol", "show", "job", "-d", "-o", str(job_id))
        return {key: value.strip() for key, value in _PAIR.findall(text)}

    def rest_job(self, job_id: int) -> dict[str, Any]:
        """Return the job as slurmrestd shows it."""
        status, answer = self.slurm.rest("GET", f"job/{job_id}")
        if status != 200:
            raise LabError(f"job {job_id} cannot be read ({status}): {json.dumps(answer.get('errors'))}")
        job: dict[str, Any] = answer["jobs"][0]
        return job

    def expand(self, hostlist: str) -> set[str]:
        """Return the nodes of a hostlist, as Slurm reads it."""
        return set(self.slurm.run("scontrol", "show", "hostnames", hostlist).split()) if hostlist else set()

    # Waiting

    def elapse(self, seconds: float) -> None:
        """Let real time pass: for what must *not* happen meanwhile."""
        pause(seconds)

    def wait_for(
        self, check: Callable[[], T | None], what: str, *, timeout_s: float = 120, every_s: float | None = None
    ) -> T:
        """Check until the result is true, and return it; ``every_s`` as for :func:`lab.clock.wait_until`.

        Raises LabError after ``timeout_s`` seconds, with what Slurm's queue and the extender's log say.
        """
        found: list[T] = []

        def has_value() -> bool:
            value = check()
            if value:
                found.append(value)
            return bool(value)

        wait_until(has_value, what, timeout_s=timeout_s, every_s=every_s, detail=self.diagnostics)
        return found[0]

    def bound(self, ref: PodRef, *, timeout_s: float = 30) -> str:
        """Wait until a Pod is bound and return its Node."""
        return self.wait_for(lambda: self.node_of(ref), f"Pod {ref.name} is bound", timeout_s=timeout_s)

    def event(self, ref: PodRef, reason: str, *, timeout_s: float = 30) -> str:
        """Wait for an Event about a Pod and return its text."""
        texts = self.wait_for(
            lambda: [text for found, text in self.events(ref) if found == reason],
            f"an Event {reason} about Pod {ref.name}",
            timeout_s=timeout_s,
        )
        return texts[0]

    def gone(self, ref: PodRef, *, timeout_s: float = 30) -> None:
        """Wait until the API server does not know the Pod any more."""
        self.wait_for(lambda: self.read(ref) is None, f"Pod {ref.name} is gone", timeout_s=timeout_s)

    def timed(
        self, check: Callable[[], T | None], what: str, *, timeout_s: float = 30, every_s: float = 0.01
    ) -> tuple[T, float]:
        """Like :meth:`wait_for`, and how many seconds it took."""
        began = elapsed()
        found = self.wait_for(check, what, timeout_s=timeout_s, every_s=every_s)
        return found, elapsed() - began

    def diagnostics(self) -> str:
        """Return Slurm's queue and the end of the extender's log, for the text of an error."""
        try:
            queue = self.slurm.run("squeue", "-a")
        except LabError as error:
            queue = str(error)
        return f"\n{queue}\n{log_tail(self.extender.log)}"
