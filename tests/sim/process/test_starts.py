"""A Pod that holds what Slurm gave it and does not start: people are told, and its node comes back where asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from extender.domain.wellknown import CONTAINERS_STARTED_CONDITION
from simulator.kube.objects import Json, a_pod, timestamp
from simulator.kube.pods import pod_key
from simulator.kube.storage import ObjectKey
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

LIMIT = "startupDeadline: {duration: 2m}\n"
POLICY = """
apiVersion: slurm-extender.io/v1alpha1
kind: PodPolicy
rules:
  - name: patient
    match: {namespaces: [default]}
    startupDeadline: %s
"""


def condition(site: Site, name: str) -> str:
    conditions: list[Json] = site.pod(name)["status"].get("conditions", [])
    return next((one["status"] for one in conditions if one["type"] == CONTAINERS_STARTED_CONDITION), "")


async def never_starting(site: Site) -> None:
    site.kubelets.start_s = 10**6
    site.kube.add_pod("web")
    await site.bound("web")
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    site.edit_pod("web", lambda pod: pod["status"].update(containerStatuses=[waiting]))


async def late(site: Site) -> float:
    return await site.metric('starting_pods{state="overdue"}')


@pytest.mark.usefixtures("unhurried")
async def test_a_pod_that_does_not_start_is_reported_once_it_is_late_and_keeps_its_node(site: Site) -> None:
    site.config += LIMIT
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(100)
        assert (condition(site, "web"), await late(site)) == ("", 0)
        assert await site.metric('starting_pods{state="in_time"}') == 1
        await asyncio.sleep(40)
        assert (condition(site, "web"), await late(site)) == ("False", 1)
        assert site.events("web").count("ContainersNotStarted") == 1
        assert any("ImagePullBackOff" in note for note in site.notes("web"))
        await asyncio.sleep(200)
        assert site.jobs_of("web")
        assert site.events("web").count("ContainersNotStarted") == 1


@pytest.mark.usefixtures("unhurried")
async def test_what_was_said_is_taken_back_when_it_starts_also_by_the_next_process(site: Site) -> None:
    site.config += LIMIT
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(140)
        assert condition(site, "web") == "False"
    running = {"name": "main", "ready": True, "state": {"running": {}}}
    site.edit_pod("web", lambda pod: pod["status"].update(phase="Running", containerStatuses=[running]))
    async with site.running():
        await asyncio.sleep(30)
        assert (condition(site, "web"), await late(site)) == ("True", 0)


@pytest.mark.usefixtures("unhurried")
async def test_where_the_site_configures_it_it_is_evicted_and_its_job_ends(site: Site) -> None:
    site.config += "startupDeadline: {duration: 2m, evict: true}\n"
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(110)
        assert site.jobs_of("web")
        await site.gone("web", 120)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


@pytest.mark.usefixtures("unhurried")
async def test_init_containers_that_end_well_are_progress(site: Site) -> None:
    site.config += LIMIT
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(80)
        ended = {"exitCode": 0, "finishedAt": timestamp(site.kube.wall())}
        done = {"name": "load", "state": {"terminated": ended}}
        site.edit_pod("web", lambda pod: pod["status"].update(initContainerStatuses=[done]))
        await asyncio.sleep(80)
        assert condition(site, "web") == ""
        await asyncio.sleep(60)
        assert condition(site, "web") == "False"


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(("limit", "told"), [("0", ""), ("2h", ""), ("1m", "False")])
async def test_a_rule_of_the_policy_says_another_limit_for_its_pods(
    site: Site, tmp_path: Path, limit: str, told: str
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY % limit)
    site.config += f"{LIMIT}jobs: {{policyFile: {path}}}\n"
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(200)
        assert condition(site, "web") == told


@pytest.mark.usefixtures("unhurried")
async def test_it_can_be_switched_off(site: Site) -> None:
    site.config += "startupDeadline: {duration: null}\n"
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(200)
        assert (condition(site, "web"), await late(site)) == ("", 0)


def running(name: str) -> Json:
    return {"name": name, "ready": True, "state": {"running": {}}}


PULLING: Json = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}


@pytest.mark.usefixtures("unhurried")
async def test_a_container_that_runs_beside_one_that_does_not_start_is_no_start(site: Site) -> None:
    site.config += LIMIT
    async with site.running():
        await never_starting(site)
        site.edit_pod("web", lambda pod: pod["status"].update(containerStatuses=[running("mesh"), PULLING]))
        await asyncio.sleep(140)
        assert (condition(site, "web"), await late(site)) == ("False", 1)


@pytest.mark.usefixtures("unhurried")
async def test_a_sidecar_that_runs_is_no_start(site: Site) -> None:
    site.config += LIMIT
    site.kubelets.start_s = 10**6
    async with site.running():
        pod = a_pod("web")
        pod["spec"]["initContainers"] = [{"name": "mesh", "restartPolicy": "Always"}]
        site.kube.create(pod)
        await site.bound("web")
        status = {"initContainerStatuses": [running("mesh")], "containerStatuses": [PULLING]}
        site.edit_pod("web", lambda pod: pod["status"].update(status))
        await asyncio.sleep(140)
        assert (condition(site, "web"), await late(site)) == ("False", 1)
        assert any("ImagePullBackOff" in note for note in site.notes("web"))


@pytest.mark.usefixtures("unhurried")
async def test_an_init_container_that_runs_may_take_its_time(site: Site) -> None:
    site.config += LIMIT
    async with site.running():
        await never_starting(site)
        site.edit_pod("web", lambda pod: pod["status"].update(initContainerStatuses=[running("load")]))
        await asyncio.sleep(300)
        assert (condition(site, "web"), await late(site)) == ("", 0)


@pytest.mark.usefixtures("unhurried")
async def test_a_clock_that_steps_makes_no_pod_late(site: Site) -> None:
    site.config += "startupDeadline: {duration: 10m, evict: true}\n"
    wall = site.kube.wall
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(60)
        site.kube.wall = lambda: wall() + 3600.0
        await asyncio.sleep(60)
        assert site.kube.pod("web") is not None
        assert (condition(site, "web"), await late(site)) == ("", 0)
        await asyncio.sleep(500)
        assert "ContainersNotStarted" in site.events("web")


@pytest.mark.usefixtures("unhurried")
async def test_api_servers_whose_clocks_differ_make_no_pod_late(site: Site) -> None:
    site.config += LIMIT
    wall = site.kube.wall
    async with site.running():
        site.kube.wall = lambda: wall() - 600.0  # one that carries the Binding out
        await never_starting(site)
        site.kube.wall = wall
        site.kube.add_pod("other")
        await site.bound("other")
        await asyncio.sleep(90)
        assert (condition(site, "web"), await late(site)) == ("", 0)


@pytest.mark.usefixtures("unhurried")
async def test_the_time_before_a_start_of_the_extender_counts(site: Site) -> None:
    site.config += LIMIT
    async with site.dying():
        await never_starting(site)
        await asyncio.sleep(100)
    async with site.running():
        await asyncio.sleep(30)
        assert condition(site, "web") == "False"


@pytest.mark.usefixtures("unhurried")
async def test_a_limit_that_is_raised_meanwhile_takes_back_what_was_said(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY % "1m")
    site.config += f"{LIMIT}jobs: {{policyFile: {path}}}\n"
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(80)
        assert (condition(site, "web"), await late(site)) == ("False", 1)
        path.write_text(POLICY % "2h")
        await asyncio.sleep(80)
        assert (condition(site, "web"), await late(site)) == ("True", 0)


@pytest.mark.usefixtures("unhurried")
async def test_a_late_pod_whose_init_container_is_tried_again_stays_late(site: Site) -> None:
    site.config += LIMIT
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(140)
        site.edit_pod("web", lambda pod: pod["status"].update(initContainerStatuses=[running("load")]))
        await asyncio.sleep(30)
        assert (condition(site, "web"), await late(site)) == ("False", 1)
        assert site.events("web").count("ContainersNotStarted") == 1


@pytest.mark.usefixtures("unhurried")
async def test_a_pod_that_starts_in_the_moment_in_which_it_would_be_evicted_is_left_alone(site: Site) -> None:
    site.config += "startupDeadline: {duration: 2m, evict: true}\n"
    started = {"phase": "Running", "containerStatuses": [running("main")]}

    def start(key: ObjectKey) -> None:
        if key == pod_key("default", "web") and site.pod("web")["status"]["phase"] == "Pending":
            site.edit_pod("web", lambda pod: pod["status"].update(started))

    async with site.running():
        await never_starting(site)
        await asyncio.sleep(60)
        site.kube.before_read.append(start)  # the watch tells of it a moment after the eviction was decided
        await asyncio.sleep(120)
        assert site.pod("web")["status"]["phase"] == "Running"
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
