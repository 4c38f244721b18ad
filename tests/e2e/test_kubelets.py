"""Real kubelets on nodes that are shared with slurmds: containers and jobs are processes, and none of them overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from lab.build_slurm import RELEASES
from lab.clock import elapsed, now
from lab.images import ABSENT_IMAGE
from lab.kubelet_site import KubeletSite
from lab.pods import container
from lab.site import PodRef
from tests.builders.ends import partitions_for
from tests.builders.process_ends import (
    SLOW,
    RealArena,
    RealEnd,
    RealKind,
    play_real,
    probed,
    real_ends,
    real_rows,
    real_site,
    wait_no_process,
)
from tests.builders.stage import MODE, PARTITION
from tests.e2e.conftest import modes_of

pytestmark = [pytest.mark.lab, pytest.mark.kubelet]

EACH = 8
"""Ends of each kind in each mode, by `make prove`: more than two hundred for each release."""

MANY_NODES = 6
"""Nodes on which they happen: an end waits more than it computes."""

QUICK = tuple(kind for kind in RealKind if kind not in SLOW)
LATEST = "26.05"
IN_EVERY_RUN = {(LATEST, "batch")}
"""Where one end of each quick kind is shown in every run; `make prove` shows many of all."""

_numbers = count(1)


def _each_release() -> list[Any]:
    return [pytest.param(name, marks=[] if name == LATEST else [pytest.mark.slow], id=name) for name in RELEASES]


@pytest.fixture(scope="module", params=_each_release())
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletSite]:
    """A site of real nodes."""
    with real_site(request.param, tmp_path_factory.mktemp("real")) as found:
        yield found


@pytest.fixture(scope="module", params=_each_release())
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletSite]:
    """A site of more real nodes."""
    with real_site(request.param, tmp_path_factory.mktemp("many"), nodes=MANY_NODES) as found:
        yield found


def _modes(*, quick: bool = False) -> list[Any]:
    return [
        pytest.param(
            release,
            mode,
            marks=[] if quick and (release, mode) in IN_EVERY_RUN else [pytest.mark.slow],
            id=f"{release}-{mode}",
        )
        for release in RELEASES
        for mode in modes_of(release)
        if mode != "auto"
    ]


def namespace(site: KubeletSite) -> str:
    return site.namespace(f"real-{next(_numbers)}")


def real_pod(site: KubeletSite, name: str, where: str, **spec: Any) -> PodRef:
    """A Pod with one container that ends at SIGTERM unless `spec` has others."""
    script = 'trap "exit 0" TERM; while :; do sleep 0.1; done'
    annotations = {MODE: "auto", PARTITION: partitions_for("auto").preempted_at_once}
    return site.pod(name, where, annotations=annotations, **{"containers": [container(script, memory="64Mi")], **spec})


def phase(site: KubeletSite, pod: PodRef) -> str:
    found = site.read(pod)
    return str(found["status"].get("phase", "")) if found else "gone"


def wait_phase(site: KubeletSite, pod: PodRef, wanted: str, *, timeout_s: float = 60) -> None:
    site.wait_for(lambda: phase(site, pod) == wanted, f"Pod {pod.name} is {wanted}", timeout_s=timeout_s)


def jobs_of(site: KubeletSite, pod: PodRef) -> list[int]:
    prefix = f"{pod.namespace}/{pod.name}-"
    return [job.job_id for job in site.squeue() if job.name.startswith(prefix)]


def wait_no_job(site: KubeletSite, pod: PodRef, *, timeout_s: float = 60) -> None:
    site.wait_for(lambda: not jobs_of(site, pod), f"Pod {pod.name} has no job", timeout_s=timeout_s)


def test_the_container_of_a_first_pod_runs_where_slurm_placed_it_and_ends_with_its_job(real: KubeletSite) -> None:
    where = namespace(real)
    pod = real_pod(real, "first", where)
    node = real.bound(pod)
    wait_phase(real, pod, "Running")
    (job,) = jobs_of(real, pod)
    assert real.scontrol_show_job(job)["NodeList"] == node
    assert real.nodes[node].processes(pod.uid)
    real.slurm.run("scancel", str(job))
    real.gone(pod, timeout_s=60)
    assert not real.nodes[node].processes(pod.uid), "the API server forgot the Pod after its last process"
    wait_no_job(real, pod)


@pytest.mark.parametrize(("real", "mode"), _modes(quick=True), indirect=["real"], scope="module")
def test_no_two_processes_overlap_one_end_of_each_quick_kind(real: KubeletSite, mode: str) -> None:
    found = play_real(real, real_ends(mode, QUICK, 1), namespace(real))
    assert not [ended for ended in found if ended.has_overlap]


@pytest.mark.slow
@pytest.mark.parametrize(("many", "mode"), _modes(), indirect=["many"], scope="module")
def test_no_two_processes_overlap_many_ends(
    many: KubeletSite, mode: str, record_property: Callable[[str, object], None]
) -> None:
    found = play_real(many, real_ends(mode, tuple(RealKind), EACH), namespace(many))
    for row in real_rows(found):
        row = {"Slurm": many.release, "mode": mode, **row}
        record_property("table: Ends of Pods with real processes", row)
    assert not [ended for ended in found if ended.has_overlap]


def test_a_kubelet_changes_no_other_node_and_no_pod_of_another_node(real: KubeletSite) -> None:
    """NodeRestriction and the Node authorizer are on."""
    first, second = list(real.nodes)[:2]
    user = f"system:node:{first}"
    patch = {"metadata": {"labels": {"changed": "yes"}}}
    kind = "application/merge-patch+json"
    assert real.kube.api("PATCH", f"/api/v1/nodes/{second}", patch, user=user, content_type=kind)[0] == 403
    restricted = {"metadata": {"labels": {"node-restriction.kubernetes.io/changed": "yes"}}}
    assert real.kube.api("PATCH", f"/api/v1/nodes/{first}", restricted, user=user, content_type=kind)[0] == 403
    assert real.kube.api("PATCH", f"/api/v1/nodes/{first}", patch, user=user, content_type=kind)[0] == 200


def test_a_pod_whose_container_fails_at_once_ends_its_job(real: KubeletSite) -> None:
    where = namespace(real)
    pod = real_pod(real, "fails", where, containers=[container("exit 7", memory="64Mi")])
    wait_phase(real, pod, "Failed")
    wait_no_job(real, pod)
    found = real.read(pod)
    assert found is not None
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7


def test_a_pod_whose_image_cannot_be_pulled_keeps_its_job_until_it_is_deleted(real: KubeletSite) -> None:
    where = namespace(real)
    pod = real_pod(real, "absent", where, containers=[container("true", memory="64Mi", image=ABSENT_IMAGE)])
    real.bound(pod)

    def reason() -> str:
        statuses = (real.read(pod) or {})["status"].get("containerStatuses") or [{}]
        return str(statuses[0].get("state", {}).get("waiting", {}).get("reason", ""))

    real.wait_for(lambda: reason() in {"ErrImagePull", "ImagePullBackOff"}, "the kubelet cannot pull the image")
    assert len(jobs_of(real, pod)) == 1
    real.delete(pod)
    real.gone(pod, timeout_s=60)
    wait_no_job(real, pod)


@pytest.mark.slow
def test_processes_outlive_a_forced_deletion_and_their_node_is_held(real: KubeletSite) -> None:
    where = namespace(real)
    node = next(iter(real.nodes))
    arena = RealArena(real, node, where)
    end = RealEnd(RealKind.THEN_FORCED, "batch", 8)
    pod = arena.pod("forced", end, partitions_for("batch").preempted_at_once, 2, "-linger -1s")
    arena.started("forced")
    (job,) = jobs_of(real, pod)
    began = now()
    arena.execute(end, pod, arena.job(pod))
    assert real.read(pod) is None
    assert real.nodes[node].processes(pod.uid), "kubelet does not shorten a grace that began"
    ended_at = wait_no_process(real, node, pod.uid, within_s=30)
    assert ended_at - began >= 7
    reasons = real.slurm.run("sinfo", "-h", "-R", "-n", node, "-o", "%E").strip()
    assert reasons.startswith("slurm-extender:") or str(job) in real.slurm.run("squeue", "-h", "-o", "%i")
    real.wait_for(
        lambda: not real.slurm.run("sinfo", "-h", "-R", "-n", node, "-o", "%E").strip(),
        f"{node} is released",
        timeout_s=420,
    )


@pytest.mark.slow
def test_twenty_pods_in_turnover_are_never_rejected_by_their_kubelet(real: KubeletSite) -> None:
    """A Binding never asks a kubelet for more than its node has left: no OutOfcpu, no UnexpectedAdmissionError."""
    where = namespace(real)
    node = next(iter(real.nodes))
    folder = real.probe_folder(node)
    pods = [
        real.pod(
            f"turn-{number}",
            where,
            cpus=7,
            grace_s=1 + number % 3,
            annotations={MODE: "auto", PARTITION: partitions_for("auto").preempted_at_once},
            **probed(folder, f"turn-{number}", f"-shared -run-for {1 + number % 3}s", cpus=7),
        )
        for number in range(20)
    ]
    real.wait_for(
        lambda: all(phase(real, pod) in {"Succeeded", "Failed"} for pod in pods), "all Pods ended", timeout_s=300
    )
    reasons = {name["metadata"]["name"]: name["status"].get("reason") for name in real.pods(where)}
    assert not {name: reason for name, reason in reasons.items() if reason}
    assert {phase(real, pod) for pod in pods} == {"Succeeded"}


@pytest.mark.slow
def test_a_rebooted_node_gets_jobs_only_after_its_pod_is_known_to_have_ended(real: KubeletSite) -> None:
    where = namespace(real)
    node = next(iter(real.nodes))
    arena = RealArena(real, node, where)
    ended = arena.play(RealEnd(RealKind.POWER_CUT, "batch", 5), next(_numbers))
    assert not ended.has_overlap
    assert not real.nodes[node].processes("no-such-pod")


def test_a_pod_continues_across_a_restart_of_its_kubelet(real: KubeletSite) -> None:
    where = namespace(real)
    pod = real_pod(real, "stays", where, containers=[container("exec sleep 3600", memory="64Mi")], grace_s=1)
    node = real.bound(pod)
    wait_phase(real, pod, "Running")
    processes = sorted(real.nodes[node].processes(pod.uid))
    (job,) = jobs_of(real, pod)
    real.nodes[node].kubelet.kill()
    real.elapse(2)
    real.nodes[node].kubelet.start()
    began = elapsed()
    while elapsed() - began < 5:
        assert phase(real, pod) == "Running"
        real.elapse(0.5)
    assert sorted(real.nodes[node].processes(pod.uid)) == processes
    assert jobs_of(real, pod) == [job]
    real.delete(pod)
    real.gone(pod, timeout_s=30)
    wait_no_job(real, pod)
