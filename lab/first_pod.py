"""A first Pod: start a site, run one Pod through Slurm, show each step with its time, and stop the site."""

import os
import shlex
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.build_kubernetes import newest_minor
from lab.build_parts import LabPart, build_parts, lab_parts
from lab.clock import elapsed
from lab.kube import ETCD_FROM
from lab.kubelet_site import KubeletSite
from lab.pods import container
from lab.site import PodRef, QueuedJob, Site
from lab.topology import small

POD = "hello"
CONFIG = {"slurm": {"killWait": "10s", "defaultPartition": "batch"}}

HELLO = 'echo "Hello from a container on $(hostname)"; trap "exit 0" TERM; while :; do sleep 0.1; done'

Say = Callable[[str], None]


def parts(release: str, *, kubelet: bool = False) -> dict[str, LabPart]:
    """Return what a first Pod needs: Slurm, one Kubernetes, kwok, and with ``kubelet`` the programs of a real node.

    etcd comes with one release of Slurm; with that release, there is one Slurm.
    """
    needed = {f"slurm-{release}", f"slurm-{ETCD_FROM}", f"kubernetes-{newest_minor()}", "kwok"}
    needed |= {"node"} if kubelet else set()
    return {name: part for name, part in lab_parts().items() if name in needed}


def first_pod(release: str, say: Say, *, stay: bool = False, kubelet: bool = False) -> None:
    """Show one Pod from its creation to the end of its job; raises LabError where that does not work.

    The parts that it needs are built first, which takes minutes; later runs find them in the cache. With ``stay`` the
    site is left up afterwards until Ctrl-C. With ``kubelet`` the Pod runs a container on a real node.
    """
    build_parts(parts(release, kubelet=kubelet), say)
    began = elapsed()
    say(f"Starting Slurm {release}, Kubernetes, kube-scheduler and the extender on this machine ...")
    topology = small(release)
    with tempfile.TemporaryDirectory(prefix="first-pod-") as folder:
        workdir = Path(folder)
        planned: Site
        if kubelet:
            real = [node.name for node in topology.kube_nodes]
            planned = KubeletSite(release, topology=topology, real=real, config=CONFIG, workdir=workdir)
        else:
            planned = Site(release, topology=topology, config=CONFIG, workdir=workdir)
        with planned as site:
            say(f"  Slurm {site.slurm.version} and Kubernetes {site.kube.version} are up, {elapsed() - began:.1f} s\n")
            _through_slurm(site, say)
            if stay:
                _stay(site, say)
            began = elapsed()
        say(f"\nEverything is stopped and removed, {elapsed() - began:.1f} s")


def _through_slurm(site: Site, say: Say) -> None:
    began = elapsed()
    real = isinstance(site, KubeletSite)
    containers: dict[str, Any] = {"containers": [container(HELLO, cpus=2)]} if real else {}
    ref = site.pod(POD, cpus=2, memory="1Gi", **containers)
    say("A Pod with `schedulerName: slurm` that asks for 2 CPUs and 1Gi is created. That field is all it takes.")
    node = site.bound(ref)
    to_bound = elapsed() - began
    job = site.wait_for(lambda: _job(site), "the Pod's job is in Slurm's queue")
    say(f"  Slurm made job {job.job_id} of it and chose {job.node}; the Pod is bound to {node}, {to_bound:.2f} s\n")
    say(_shown("squeue", site.slurm.run("squeue")))
    say(_shown("kubectl get pods -o wide", _pods(site)))
    said = site.wait_for(lambda: _granted(site, ref), "an Event reports the grant")
    say(f"What the Pod's Events say:\n{said}\n")
    if real:
        say(_shown(f"kubectl logs {POD}", site.kube.kubectl("logs", POD)))

    began = elapsed()
    site.delete(ref)
    say("The Pod is deleted.")
    site.gone(ref)
    gone = elapsed() - began
    site.wait_for(lambda: _job(site) is None, "its job is over")
    say(f"  The Pod was gone after {gone:.2f} s (its own grace), its job {elapsed() - began - gone:.2f} s later.\n")
    say(_shown("squeue", site.slurm.run("squeue")))


def _stay(site: Site, say: Say) -> None:
    say("The site stays up. In another shell of this machine:\n")
    if isinstance(site, KubeletSite):
        say(f"  nsenter --net=/proc/{os.getpid()}/ns/net bash    # the network of this site")
    say(f"  export KUBECONFIG={shlex.quote(str(site.kube.kubeconfig))}")
    say(f"  alias kubectl={shlex.quote(str(site.kube.kubectl_path))}")
    say("  kubectl get nodes; python -m lab slurm squeue")
    say(f"  curl http://127.0.0.1:{site.addresses.debug}/debug/placeholders")
    say(f"\nThe extender logs to {site.extender.log}. Ctrl-C ends everything.")
    try:
        signal.pause()
    except KeyboardInterrupt:
        say("")


def _job(site: Site) -> QueuedJob | None:
    return next((job for job in site.squeue() if job.name.startswith(f"default/{POD}-")), None)


def _granted(site: Site, ref: PodRef) -> str:
    events = site.events(ref)
    if not any(reason == "SlurmJobGranted" for reason, _ in events):
        return ""
    return "\n".join(f"  {reason}: {text}" for reason, text in events)


def _pods(site: Site) -> str:
    site.wait_for(
        lambda: all(pod["status"].get("phase") == "Running" for pod in site.pods("default")), "the Pod is running"
    )
    return site.kube.kubectl("get", "pods", "-o", "wide")


def _shown(command: str, output: str) -> str:
    return "\n".join([f"$ {command}", *(f"  {line.rstrip()}" for line in output.splitlines()), ""])
