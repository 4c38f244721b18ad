"""A new operator's walk: try it, import the configuration of a peer, install the shipped chart, place the peer's own
example Pods, ask why a Pod waits, uninstall. Each step is timed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from lab.clock import elapsed
from lab.extender import PROGRAM
from lab.installed_site import InstalledSite
from lab.site import PodRef
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import GPU_MODEL, SLURM_NODE, KubeNode, Topology
from tests.builders.stage import Stage
from tests.e2e.test_plugin import Kubectl

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PLAIN = tuple(SlurmNode(f"node-{number}", cpus=4, memory_mb=16_000) for number in (1, 2, 3))
GPUS = SlurmNode("gpu-1", cpus=128, memory_mb=1_000_000, gpus=8, gpu_type="h100")
TOPOLOGY = Topology(
    nodes=(*PLAIN, GPUS),
    external_nodes=(),
    partitions=(Partition("batch", default=True),),
    kube_nodes=(
        *(KubeNode(node.name, node) for node in PLAIN),
        KubeNode("kube-gpu-1", GPUS, {SLURM_NODE: GPUS.name, GPU_MODEL: "H100"}),
    ),
    slurm_config={"KillWait": "30"},
)

ON_ONE_NODE = {"kubernetes.io/hostname": PLAIN[0].name}

SUNK_VALUES = """
slurmConfig: {KillWait: 30}
scheduler:
  enabled: true
  name: tenant-slurm
  scope: {type: namespace, namespaces: [tenant-slurm]}
  config:
    slurm: {poolSize: 50}
    scheduler: {gpuTypes: {H100: h100}}
"""
SUNK_PODS = """
apiVersion: v1
kind: Pod
metadata:
  name: training
  namespace: tenant-slurm
  annotations:
    sunk.coreweave.com/comment: A Kubernetes job
    sunk.coreweave.com/exclusive: none
spec:
  schedulerName: tenant-slurm
  restartPolicy: Never
  terminationGracePeriodSeconds: 5
  automountServiceAccountToken: false
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - {key: gpu.nvidia.com/model, operator: In, values: [H100]}
  containers:
  - name: main
    image: lab/nothing
    resources:
      requests: {cpu: "110", memory: 900Gi, nvidia.com/gpu: "8", rdma/ib: "1"}
      limits: {memory: 900Gi, nvidia.com/gpu: "8", rdma/ib: "1"}
"""
BRIDGE_VALUES = """
schedulerConfig: {schedulerName: slurm-bridge-scheduler, partition: batch}
sharedConfig:
  slurmRestApi: http://slurm-restapi.slurm:6820
  slurmJwtSecret: {name: slurm-bridge-token, key: auth-token}
"""
BRIDGE_PODS = """
apiVersion: v1
kind: Pod
metadata:
  name: pod-single
  namespace: slurm-bridge
  annotations:
    slurmjob.slinky.slurm.net/job-name: pod-single
    slurmjob.slinky.slurm.net/timelimit: '1'
spec:
  schedulerName: slurm-bridge-scheduler
  restartPolicy: Never
  containers:
    - name: pod-single
      image: busybox:stable
      command: [sh, -c, sleep 3]
      resources:
        requests: {cpu: '1', memory: 100Mi}
        limits: {cpu: '1', memory: 100Mi}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: job-sleep-single
  namespace: slurm-bridge
  annotations:
    slurmjob.slinky.slurm.net/job-name: job-sleep-single
spec:
  completions: 1
  parallelism: 1
  template:
    spec:
      schedulerName: slurm-bridge-scheduler
      containers:
        - name: sleep
          image: busybox:stable
          command: [sh, -c, sleep 3]
          resources:
            requests: {cpu: '1', memory: 100Mi}
            limits: {cpu: '1', memory: 100Mi}
      restartPolicy: Never
"""


@dataclass(frozen=True)
class Peer:
    """The origin of an operator. `release` is the Slurm of this walk."""

    name: str
    release: str
    namespace: str
    scheduler: str
    values: str
    pods: str


PEERS = (
    Peer("SUNK", "24.11", "tenant-slurm", "tenant-slurm", SUNK_VALUES, SUNK_PODS),
    Peer("slurm-bridge", "26.05", "slurm-bridge", "slurm-bridge-scheduler", BRIDGE_VALUES, BRIDGE_PODS),
)


@dataclass
class Steps:
    """Seconds of each step, in their order."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block."""
        began = elapsed()
        yield
        self.seconds[name] = elapsed() - began


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: f"{peer.release}-{peer.name}")
def test_a_new_operator_comes_from_a_peer_and_leaves_again(
    peer: Peer, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    steps = Steps()
    with steps.step("try: `make demo`, without the set-up"):
        ran(str(PROGRAM), "demo")
    with steps.step("Slurm and Kubernetes of the lab start"):
        site = InstalledSite(peer.release, topology=TOPOLOGY, workdir=tmp_path)
        site.__enter__()
    try:
        walked(site, peer, steps)
    finally:
        site.__exit__(None, None, None)
    for name, seconds in steps.seconds.items():
        row = {"from": f"{peer.name}, Slurm {peer.release}", "step": name, "seconds": f"{seconds:.1f}"}
        record_property("table: A new operator's walk", row)


def walked(site: InstalledSite, peer: Peer, steps: Steps) -> None:
    """Everything after the start of the two clusters."""
    site.kube.kubectl("create", "namespace", peer.namespace)
    for node in TOPOLOGY.kube_nodes:  # as a device plug-in of InfiniBand offers it
        offered = {"status": {"capacity": {"rdma/ib": "1"}, "allocatable": {"rdma/ib": "1"}}}
        path = f"/api/v1/nodes/{node.name}/status"
        status, answer = site.kube.api("PATCH", path, offered, content_type="application/strategic-merge-patch+json")
        assert status == 200, answer
    with steps.step("`import-config --for helm`"):
        values = yaml.safe_load(ran(str(PROGRAM), "import-config", "--for", "helm", "-", given=peer.values))
    # What the peer's configuration cannot say: where slurmrestd is, and whose token it gets.
    values["config"]["slurm"] |= {"addresses": [site.slurm.rest_url], "user": "root"}
    with steps.step("`helm install`, certificates, start to ready"):
        said = site.install(values)
    assert "slurm-extender" in said
    place = Stage(site, "auto", peer.namespace)
    with steps.step("own Pod: create to bound"):
        own = site.pod("own", peer.namespace, cpus=1, scheduler=peer.scheduler, nodeSelector=ON_ONE_NODE)
        site.bound(own, timeout_s=60)
    assert place.job(own).state == "RUNNING"
    with steps.step(f"example Pods of {peer.name}: create to bound"):
        site.kube.kubectl("apply", "-f", "-", stdin=peer.pods)
        site.wait_for(lambda: everyone_bound(site, peer, len(list(yaml.safe_load_all(peer.pods))) + 1), "all are bound")
    waits = site.pod("waits", peer.namespace, cpus=4, scheduler=peer.scheduler, nodeSelector=ON_ONE_NODE)
    kubectl = Kubectl(place)
    with steps.step("`kubectl slurm why` shows the reason of a Pod that waits"):
        site.wait_for(lambda: why(kubectl, waits, peer.scheduler), "the reason is shown", timeout_s=60, every_s=1)
    with steps.step("Pods deleted, `slurm-extender uninstall`, `helm uninstall`"):
        for pod in (waits, own):
            site.delete(pod)
        site.kube.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=peer.pods)
        site.wait_for(lambda: not site.pods(peer.namespace) and not site.squeue(), "Pods and jobs end")
        site.stop_extender()
        code, text = site.uninstall()
        assert code == 0, text
        site.uninstall_chart()
    left = site.kube.kubectl("get", KINDS, "-A", "-l", "app.kubernetes.io/instance=slurm-extender", "-o", "name")
    assert set(left.split()) <= {"secret/slurm-extender-hooks"}, "the key is kept for the next installation"


KINDS = (
    "deployments,configmaps,services,secrets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,"
    "mutatingadmissionpolicies,validatingadmissionpolicies,networkpolicies,cronjobs,flowschemas"
)


def everyone_bound(site: InstalledSite, peer: Peer, count: int) -> bool:
    """Whether so many Pods are there, and each has a Node or was there and is over."""
    pods = site.pods(peer.namespace)
    return len(pods) >= count and all(pod["spec"].get("nodeName") for pod in pods)


def why(kubectl: Kubectl, pod: PodRef, scheduler: str) -> str:
    """The reason, once it is Slurm's: Resources."""
    named = ("-n", pod.namespace, "--scheduler-name", scheduler)
    said = kubectl.tried("slurm", "why", pod.name, *named).stdout
    return said if "waits for free resources" in said else ""


def ran(*command: str, given: str = "") -> str:
    """What a command printed; it succeeded."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
