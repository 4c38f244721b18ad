"""A first Pod: a site comes up, one Pod goes through Slurm, each step is told with its time, all is taken down."""

import shlex
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lab import build_kubernetes, build_slurm
from lab.clock import elapsed
from lab.kube import ETCD_FROM
from lab.site import PodRef, QueuedJob, Site
from lab.topology import small

POD = "hello"
CONFIG = {"slurm": {"killWait": "10s", "defaultPartition": "batch"}}

Say = Callable[[str], None]
Build = Callable[[], Path]


def parts(release: str) -> dict[str, Build]:
    """Return what a first Pod needs, and how each part is built: Slurm, one Kubernetes, and kubelets' stand-in.

    etcd comes with one release of Slurm; with that release, there is one Slurm.
    """
    kubernetes = build_kubernetes.kubernetes_build(build_kubernetes.newest_minor())
    kwok = build_kubernetes.kwok_build()
    return {
        **{f"Slurm {name}": partial(build_slurm.build, build_slurm.release(name)) for name in (release, ETCD_FROM)},
        kubernetes.name: partial(build_kubernetes.build, kubernetes),
        kwok.name: partial(build_kubernetes.build, kwok),
    }


def build_parts(needed: dict[str, Build], say: Say) -> None:
    """Build each part that is not in the cache yet, and tell its seconds; raises LabError."""
    for name, build in needed.items():
        say(f"Building {name}, unless the cache has it ...")
        began = elapsed()
        build()
        say(f"  {elapsed() - began:.1f} s")


def first_pod(release: str, say: Say, *, stay: bool = False) -> None:
    """Show one Pod from its creation to the end of its job; raises LabError where that does not work.

    The parts that it needs are built first, which takes minutes; later runs find them in the cache. With ``stay`` the
    site is left up afterwards until Ctrl-C.
    """
    build_parts(parts(release), say)
    began = elapsed()
    say(f"Starting Slurm {release}, Kubernetes, kube-scheduler and the extender on this machine ...")
    with tempfile.TemporaryDirectory(prefix="first-pod-") as folder:
        with Site(release, topology=small(release), config=CONFIG, workdir=Path(folder)) as site:
            say(f"  Slurm {site.slurm.version} and Kubernetes {site.kube.version} are up, {elapsed() - began:.1f} s\n")
            _through_slurm(site, say)
            if stay:
                _stay(site, say)
            began = elapsed()
        say(f"\nEverything is stopped and removed, {elapsed() - began:.1f} s")


def _through_slurm(site: Site, say: Say) -> None:
    began = elapsed()
    ref = site.pod(POD, cpus=2, memory="1Gi")
    say("A Pod with `schedulerName: slurm` that asks for 2 CPUs and 1Gi is created. That field is all it takes.")
    node = site.bound(ref)
    to_bound = elapsed() - began
    job = site.wait_for(lambda: _job(site), "the Pod's job is in Slurm's queue")
    say(f"  Slurm made job {job.job_id} of it and chose {job.node}; the Pod is bound to {node}, {to_bound:.2f} s\n")
    say(_shown("squeue", site.slurm.run("squeue")))
    say(_shown("kubectl get pods -o wide", _pods(site)))
    said = site.wait_for(lambda: _granted(site, ref), "an Event tells of the grant")
    say(f"What the Pod's Events say:\n{said}\n")

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
