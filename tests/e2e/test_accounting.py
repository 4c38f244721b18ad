"""Pods on a site with slurmdbd, which holds everybody to accounts, QOS and limits; and the settings that only it shows.

The site is small and of its own: the big one of the other tests has no accounts, and lets everybody pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from extender.domain.wellknown import BRIDGE_PREFIX, OWN_PREFIX, SUNK_PREFIX
from lab.build_slurm import RELEASES
from lab.site import PodRef, Site
from lab.slurm_conf import Partition, SlurmNode
from lab.topology import EXTERNAL, KubeNode, Topology
from tests.builders.stage import Stage
from tests.e2e.conftest import CONFIG, modes_of
from tests.e2e.test_plugin import Kubectl, pod_of_the_extender

NODES = (
    SlurmNode("node-1", cpus=64, features=("tested",)),
    SlurmNode("node-2", cpus=64, gpus=8, gpu_type="h100"),
)
OUTSIDE = SlurmNode(EXTERNAL.nodes[0], cpus=64)
"""An external node, where the release knows such nodes."""

SLURM_CONFIG = {
    "KillWait": "10",
    "MinJobAge": "7200",
    # A job's label of multi-category security is kept only where a plug-in serves it; that of this one is the user.
    "MCSPlugin": "mcs/user",
    "MCSParameters": "ondemand,ondemandselect",
}
ACCOUNTS = (
    ("add", "qos", "high"),
    ("add", "account", "physics"),
    ("add", "account", "one-job", "MaxJobs=1"),
    ("add", "user", "root", "account=physics,one-job"),
    ("modify", "user", "root", "account=physics", "set", "qos+=high"),
)
_numbers = count(1)


def topology(release: str) -> Topology:
    """Two nodes with slurmd, and an external one from 26.05 on."""
    outside = (OUTSIDE,) if "external" in modes_of(release) else ()
    return Topology(
        nodes=NODES,
        external_nodes=outside,
        partitions=(
            Partition("batch", nodes=",".join(node.name for node in NODES), default=True),
            *(Partition(EXTERNAL.main, nodes=node.name) for node in outside),
        ),
        kube_nodes=tuple(KubeNode(node.name, node) for node in (*NODES, *outside)),
        slurm_config=SLURM_CONFIG,
    )


PROVED_ALONE = {"24.11"}
"""Where accounts belong to `make prove`: the contract suite asks each Slurm about them before every landing."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(one, id=one, marks=[pytest.mark.lab, *([pytest.mark.slow] if one in PROVED_ALONE else [])])
        for one in RELEASES
    ],
)
def accounted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose Slurm knows accounts."""
    workdir = tmp_path_factory.mktemp("accounted")
    with Site(request.param, topology=topology(request.param), config=CONFIG, accounting=True, workdir=workdir) as site:
        for words in ACCOUNTS:
            site.slurm.sacctmgr(*words)
        yield site


@pytest.fixture
def place(accounted: Site) -> Iterator[Stage]:
    """A clean place on it, whatever mode the extender chooses."""
    found = Stage(accounted, "auto", accounted.namespace(f"accounts-{next(_numbers)}"))
    yield found
    found.finish()


def refusals(place: Stage, ref: PodRef) -> int:
    """How many requests for a job of this Pod Slurm has refused."""
    lines = [str(entry.get("line", "")) for entry in place.site.extender_log() if entry.get("workload") == ref.uid]
    return sum("SubmitRefused(" in line for line in lines)


@pytest.mark.modes(slow=("24.11",))
def test_account_and_qos_of_every_prefix_are_those_of_the_job(place: Stage) -> None:
    site = place.site
    pods = [
        site.pod(f"pod-{number}", place.namespace, annotations={prefix + "account": "physics", prefix + "qos": "high"})
        for number, prefix in enumerate((OWN_PREFIX, SUNK_PREFIX, BRIDGE_PREFIX))
    ]
    plain = site.pod("plain", place.namespace)
    for pod in pods:
        site.bound(pod)
        shown = site.scontrol_show_job(place.job(pod).job_id)
        assert (shown["Account"], shown["QOS"]) == ("physics", "high")
    site.bound(plain)
    shown = site.scontrol_show_job(place.job(plain).job_id)
    assert (shown["Account"], shown["QOS"]) == ("root", "normal")


UNKNOWN = {"account": ("2045", "Invalid account"), "qos": ("2066", "Invalid qos")}
"""What is unknown, and Slurm's number and words for it."""


def test_an_unknown_account_or_qos_is_reported_in_slurms_words_and_not_requested_again(place: Stage) -> None:
    site = place.site
    pods = {wrong: place.pod(wrong, annotations={OWN_PREFIX + wrong: "nobody-knows"}) for wrong in UNKNOWN}
    for wrong, (number, words) in UNKNOWN.items():
        text = site.event(pods[wrong], "SlurmJobRejected")
        assert number in text
        assert words in text
    before = {wrong: refusals(place, pod) for wrong, pod in pods.items()}
    assert set(before.values()) <= {1, 2}, "one for the job in the queue, and one where an allocation was tried first"
    site.elapse(4)  # what is tried again is so after one second, and after two more
    assert {wrong: refusals(place, pod) for wrong, pod in pods.items()} == before
    for wrong, pod in pods.items():
        assert [reason for reason, _ in site.events(pod)].count("SlurmJobRejected") == 1
        assert place.made(pod) == []
        site.annotate(pod, {OWN_PREFIX + wrong: None})
    for pod in pods.values():
        assert site.bound(pod)


def test_a_pod_above_a_limit_of_its_account_waits_with_the_reason_until_there_is_room(place: Stage) -> None:
    site = place.site
    said = {OWN_PREFIX + "account": "one-job"}
    first = place.pod("first", annotations=said)
    site.bound(first)
    second = place.pod("second", annotations=said)
    site.wait_for(
        lambda: [
            text for reason, text in site.events(second) if reason == "SlurmJobPending" and "AssocMaxJobsLimit" in text
        ],
        "its reason is told",
    )
    waiting = place.job(second)
    assert waiting.state == "PENDING"
    assert site.node_of(second) == ""
    site.delete(first)
    site.bound(second)
    assert place.job(second).job_id == waiting.job_id


def test_settings_that_other_sites_do_not_show(place: Stage) -> None:
    site = place.site
    wanted = {
        "label": ({OWN_PREFIX + "mcs-label": "root"}, {}, ("MCS_label", "root")),
        "gres": ({OWN_PREFIX + "gres": "gpu:h100:2"}, {}, ("TresPerNode", "gres/gpu:h100:2")),
        "type": ({OWN_PREFIX + "gpu-type": "h100"}, {"gpus": 3}, ("TresPerNode", "gres/gpu:h100:3")),
        "reserved": ({BRIDGE_PREFIX + "reservation": "theirs"}, {}, ("Reservation", "theirs")),
    }
    words = ("ReservationName=theirs", "Nodes=node-1", "Users=root", "StartTime=now", "Duration=60")
    site.slurm.run("scontrol", "create", "reservation", *words)
    try:
        pods = {
            name: site.pod(name, place.namespace, annotations=said, **options)
            for name, (said, options, _) in wanted.items()
        }
        for name, (_, _, (key, value)) in wanted.items():
            site.bound(pods[name])
            assert site.scontrol_show_job(place.job(pods[name]).job_id)[key] == value
    finally:
        place.finish()
        site.slurm.run("scontrol", "delete", "ReservationName=theirs")


def test_sacct_shows_which_pod_a_job_was_for_when_both_are_gone(place: Stage) -> None:
    site, named = place.site, f"{place.namespace}/past"
    past = place.pod("past")
    site.bound(past)
    job = place.job(past)
    site.delete(past)
    place.wait_job_ended(past)
    words = ("sacct", "-X", "-n", "-P", "-j", str(job.job_id), "-o", "JobName,AdminComment")
    told = site.wait_for(
        lambda: line if "CANCELLED" in (line := site.slurm.run(*words[:-1], f"{words[-1]},State")) else None,
        "slurmdbd knows the end",
    )
    name, mark, _ = told.strip().split("|")
    assert name.startswith(f"{named}-")
    assert f'"p":"{named}"' in mark


RECORDED_FROM = "26.05"
"""The release in which the record of a job can be changed by slurmrestd."""

ENDS: dict[str, tuple[dict[str, int | str], str]] = {
    "exit-0": ({"exitCode": 0, "reason": "Completed"}, "0:0"),
    "exit-3": ({"exitCode": 3, "reason": "Error"}, "3:0"),
    "exit-137": ({"exitCode": 137, "reason": "OOMKilled"}, "137:0"),
    "signal-9": ({"exitCode": 137, "signal": 9, "reason": "Error"}, "0:9"),
}
"""How a container ends, and what sacct shows of it: the exit code and the signal."""


ENDED_STATES = {"COMPLETED", "FAILED", "CANCELLED"}


def runs(site: Site, ref: PodRef) -> bool:
    """Return whether the Pod's phase is Running."""
    return ((site.read(ref) or {}).get("status") or {}).get("phase") == "Running"


def end_container(site: Site, ref: PodRef, terminated: dict[str, int | str]) -> None:
    """Report the end of the Pod's container as a kubelet does."""
    container = {"name": "main", "image": "lab/nothing", "imageID": "", "ready": False, "restartCount": 0}
    status = {
        "phase": "Failed" if terminated["exitCode"] else "Succeeded",
        "containerStatuses": [container | {"state": {"terminated": terminated}}],
    }
    code, answer = site.kube.api(
        "PATCH", f"{ref.path}/status", {"status": status}, content_type="application/strategic-merge-patch+json"
    )
    assert code == 200, answer


def accounting(site: Site, job_id: int) -> dict[str, str]:
    """What sacct shows of a job."""
    fields = ("State", "ExitCode", "DerivedExitCode", "Comment")
    line = site.slurm.run("sacct", "-X", "-n", "-P", "-j", str(job_id), "-o", ",".join(fields))
    return dict(zip(fields, line.strip().split("|"), strict=True)) if line.strip() else dict.fromkeys(fields, "")


def test_sacct_shows_how_the_pod_ended_in_every_mode(accounted: Site) -> None:
    site = accounted
    places = {
        mode: Stage(site, mode, site.namespace(f"exit-codes-{mode}"))
        for mode in modes_of(site.release)
        if mode != "auto"
    }
    try:
        pods = {(mode, end): place.pod(end) for mode, place in places.items() for end in ENDS}
        jobs = {(mode, end): places[mode].job(pod).job_id for (mode, end), pod in pods.items() if site.bound(pod)}
        for (_, end), pod in pods.items():
            site.wait_for(partial(runs, site, pod), "it runs")
            end_container(site, pod, ENDS[end][0])
        expected = {(mode, end): ENDS[end][1] if site.release == RECORDED_FROM else "0:0" for mode, end in pods}

        def shown() -> bool:
            found = {key: accounting(site, job_id) for key, job_id in jobs.items()}
            ended = all(one["State"].partition(" ")[0] in ENDED_STATES for one in found.values())
            return ended and {key: one["DerivedExitCode"] for key, one in found.items()} == expected

        site.wait_for(shown, f"sacct shows {expected}", timeout_s=90, every_s=1)
        if site.release == RECORDED_FROM:
            for mode, place in places.items():
                comment = accounting(site, jobs[mode, "exit-137"])["Comment"]
                assert comment.endswith(f"Pod {place.namespace}/exit-137 Failed: exit 137 OOMKilled")
    finally:
        for place in places.values():
            place.finish()


def test_kubectl_slurm_shares_shows_accounts_users_and_limits(place: Stage) -> None:
    kubectl = Kubectl(place)
    with pod_of_the_extender(place):
        table = kubectl("slurm", "shares").stdout.splitlines()
        assert table[0].split()[:2] == ["ACCOUNT", "USER"]
        assert {line.split()[0] for line in table[1:]} >= {"physics", "one-job"}
        (account, user) = json.loads(kubectl("slurm", "shares", "one-job", "-o", "json").stdout)
        assert (account["account"], account["user"]) == ("one-job", "")
        assert (user["account"], user["user"], user["name"]) == ("one-job", "root", "one-job/root")
        assert 0.0 <= user["fairshare"] <= 1.0
        assert account["maxJobs"] == 1
        assert "Slurm has no account unknown" in kubectl("slurm", "shares", "unknown").stderr


def test_kubectl_slurm_cancel_ends_a_placed_and_a_waiting_pod_with_their_jobs(place: Stage) -> None:
    site, kubectl = place.site, Kubectl(place)
    said = {OWN_PREFIX + "account": "one-job"}
    placed = place.pod("placed", annotations=said, labels={"app": "sweep"})
    site.bound(placed)
    waiting = place.pod("waiting", annotations=said, labels={"app": "sweep"})
    jobs = {place.job(placed).job_id, place.job(waiting).job_id}
    cancel = ("slurm", "cancel", "-l", "app=sweep", "-n", place.namespace)
    tried = kubectl(*cancel, "--dry-run=server").stdout
    assert "pod/placed evicted (server dry run): Slurm job " in tried
    assert {job.job_id for job in place.jobs()} == jobs
    done = kubectl(*cancel).stdout
    assert "pod/placed evicted: Slurm job " in done
    assert "pod/waiting deleted: " in done
    for pod in (placed, waiting):
        site.gone(pod)
        place.wait_job_ended(pod)
    site.wait_for(
        lambda: {accounting(site, job_id)["State"].partition(" ")[0] for job_id in jobs} == {"CANCELLED"},
        "slurmdbd knows that both were cancelled",
        timeout_s=30,
    )
