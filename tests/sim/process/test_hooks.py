"""What scripts on Slurm's nodes are answered, over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.jobs.identity import hook_token
from extender.domain.jobs.job import Mark
from extender.domain.nodes.removals import removals_in
from extender.domain.wellknown import GATE
from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimJob
from tests.builders.process_site import CLUSTER, SITE_KEY, Site

pytestmark = pytest.mark.looptime
BATCH = {"slurm-extender.io/mode": "batch"}
TOKEN = "SLURM_EXTENDER_TOKEN"
IN_TURN = 3
"""Reads of the only job that its turn brings in a second or so."""

FACT = "Pod a/b (c0ffee) was removed from nowhere without a kubelet report, grace 999999999 s"


def token_of(job: SimJob) -> str:
    """As the job's script has it."""
    return job.environment[TOKEN]


async def run(site: Site, name: str, grace_s: int = 30) -> SimJob:
    site.kube.add_pod(name, annotations=BATCH, grace_s=grace_s)
    await site.bound(name)
    (job,) = site.jobs_of(name)
    return job


def drain_reason(site: Site, node: str) -> str:
    """The reason of the extender's drain, without the extender's name."""
    return site.slurm.controller.nodes[node].reason.partition("] ")[2]


async def answers_about_others(site: Site, token: str, *others: int) -> list[tuple[int, dict[str, object]]]:
    """The answers to a teardown of other placeholder jobs, of a native job, and of none, without their numbers."""
    answers = []
    for job_id in (*others, await site.submit_as_another_user(), 777):
        answer = await site.post(f"/hooks/jobs/{job_id}/teardown?wait=5", token)
        answers.append((answer.status_code, answer.json() | {"job": 0}))
    return answers


async def ended_unseen(site: Site) -> SimJob:
    """The job of a Pod that takes 10 s to end, over, which no poll has seen yet."""
    job = await run(site, "web", grace_s=10)
    site.kubelets.stop_s = 10.0
    await asyncio.sleep(5)
    site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", "/jobs/state", times=1)
    await asyncio.sleep(2)
    site.slurm.controller.end(job.job_id, "TIMEOUT")
    return job


async def held_for_its_pod(site: Site) -> SimJob:
    """The job of a Pod that takes 10 s to end, over, and its node drained."""
    job = await ended_unseen(site)
    await site.until(lambda: site.drained() == list(job.nodes), "the drain", within=5)
    await asyncio.sleep(1)
    return job


async def drained_at_once_until_gone(site: Site, job: SimJob) -> None:
    await site.until(lambda: site.drained() == list(job.nodes), "the drain", within=0.2)
    await site.gone("web")
    await site.until(lambda: not site.drained(), "no drain")


async def test_all_who_wait_for_a_pod_are_answered_when_it_is_gone(site: Site) -> None:
    async with site.running():
        job = await run(site, "web", grace_s=5)
        site.kubelets.stop_s = 5.0
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        path = f"/hooks/jobs/{job.job_id}/teardown"
        calls = [asyncio.create_task(site.post(f"{path}?wait={wait}", token_of(job))) for wait in (60, 60, 2, 0)]
        answers = [await call for call in calls]
        assert [answer.status_code for answer in answers] == [200, 200, 202, 202]
        assert [answer.json()["gone"] for answer in answers] == [True, True, False, False]
        assert answers[2].json()["pods"] == ["default/web"]
        assert site.kube.pod("web") is None


async def test_after_a_script_learned_that_no_pod_is_there_none_comes_before_slurm_says_that_the_job_lives(
    site: Site,
) -> None:
    async with site.running():
        site.network.refuse("extender", 8080)
        site.kube.add_pod("web", annotations=BATCH, gates=(GATE,))
        await site.until(lambda: any(job.running for job in site.jobs_of("web")), "a job")
        await asyncio.sleep(5)
        (job,) = site.jobs_of("web")
        site.slurm.restd.faults.add(SlurmFault.UNAVAILABLE, "GET", f"/job/{job.job_id}")
        assert (await site.post(f"/hooks/jobs/{job.job_id}/teardown?wait=2", token_of(job))).json()["gone"]
        site.network.refuse("extender", 8080, refused=False)
        await asyncio.sleep(30)
        assert not site.node_of("web")
        site.slurm.restd.faults.clear()
        await site.bound("web", within=30)
        assert site.jobs_of("web") == [job]


async def test_a_token_serves_for_its_own_job_alone(site: Site) -> None:
    async with site.running():
        mine, other = await run(site, "mine"), await run(site, "other")
        for path in (f"/hooks/jobs/{other.job_id}/teardown", f"/hooks/nodes/{other.nodes[0]}/drain"):
            if other.nodes == mine.nodes and "nodes" in path:
                continue
            assert (await site.post(path, token_of(mine))).status_code == 403
            assert (await site.post(path, "")).status_code == 401
        forged = hook_token(b"guessed", Mark(CLUSTER, "slurm", site.uid("other"), 1))
        assert (await site.post(f"/hooks/jobs/{other.job_id}/teardown", forged)).status_code == 403


async def test_a_token_of_a_job_that_has_ended_opens_nothing(site: Site) -> None:
    async with site.running():
        job = await run(site, "web")
        node = job.nodes[0]
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "its end")
        assert (await site.post(f"/hooks/nodes/{node}/drain", token_of(job))).status_code == 403
        other = await run(site, "other")
        assert (await site.post(f"/hooks/nodes/{other.nodes[0]}/drain", token_of(job))).status_code == 403
        assert not site.drained()


async def test_the_owner_of_a_running_job_cannot_drain_its_node(site: Site) -> None:
    async with site.running():
        job = await run(site, "web")
        answer = await site.post(f"/hooks/nodes/{job.nodes[0]}/drain", token_of(job))
        assert answer.status_code == 409
        await asyncio.sleep(5)
        assert not site.drained()


async def test_calls_at_once_with_the_token_of_a_running_job_have_it_read_twice(site: Site) -> None:
    async with site.running():
        job = await run(site, "web")
        await asyncio.sleep(30)
        before, path = len(site.slurm.restd.requests), f"/hooks/nodes/{job.nodes[0]}/drain"
        answers = await asyncio.gather(*(site.post(path, token_of(job)) for _ in range(100)))
        assert {answer.status_code for answer in answers} == {409}
        reads = sum(path.endswith(f"/job/{job.job_id}") for _method, path in site.slurm.restd.requests[before:])
        assert reads <= 2 + IN_TURN
        assert not site.drained()


async def test_calls_before_the_end_of_a_job_keep_no_later_call_from_seeing_it(site: Site) -> None:
    async with site.running():
        job = await run(site, "web", grace_s=10)
        site.kubelets.stop_s = 10.0
        site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", "/jobs/state", times=1)
        path = f"/hooks/nodes/{job.nodes[0]}/drain"
        assert (await site.post(path, token_of(job))).status_code == 409
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        assert (await site.post(path, token_of(job))).status_code == 202
        await drained_at_once_until_gone(site, job)


async def test_a_job_whose_end_no_poll_has_seen_yet_drains_its_node_at_once(site: Site) -> None:
    async with site.running():
        job = await ended_unseen(site)
        assert (await site.post(f"/hooks/nodes/{job.nodes[0]}/drain", token_of(job))).status_code == 202
        await drained_at_once_until_gone(site, job)


async def test_no_text_of_a_jobs_owner_reaches_the_reason_of_a_drain(site: Site) -> None:
    async with site.running():
        job = await held_for_its_pod(site)
        (node,) = job.nodes
        for text in (FACT, "Node n9 was deleted", "x <DOWN before: y", FACT):
            answer = await site.post(f"/hooks/nodes/{node}/drain?reason={text}", token_of(job))
            assert answer.status_code == 202
            await asyncio.sleep(1)
            assert drain_reason(site, node) == f"Pod default/web outlives its job {job.job_id}"
        assert sum(method == "POST" and f"/node/{node}" in path for method, path in site.slurm.restd.requests) == 1
    async with site.running():
        await site.gone("web")
        await site.until(lambda: not site.drained(), "no drain", within=20)


async def test_a_script_does_not_wait_when_its_job_is_forgotten_before_it_calls(site: Site) -> None:
    async with site.running():
        job = await run(site, "web")
        site.kube.delete_pod("web", grace_s=1)
        await site.until(
            lambda: not site.live_jobs() and site.extender.engine.placeholders.by_job(job.job_id) is None,
            "its end",
        )
        answer = await site.post(f"/hooks/jobs/{job.job_id}/teardown?wait=60", token_of(job))
        assert (answer.status_code, answer.json()["gone"]) == (404, True)


async def test_no_hook_says_that_a_pod_is_gone_before_the_owner_of_the_job_is_known(site: Site) -> None:
    async with site.dying():
        job = await run(site, "web")
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].pop("status.slurm-extender.io/job-id"))
    site.network.refuse("slurm", 6820)
    async with site.running():
        answer = await site.post(f"/hooks/jobs/{job.job_id}/teardown?wait=1", token_of(job))
        assert answer.status_code == 503


@pytest.mark.parametrize("token", ["", "anything", "1.uid.00", "1." * 1900, "9" * 3000 + ".u.00"])
async def test_a_caller_without_a_proof_does_not_learn_which_jobs_are_placeholders(site: Site, token: str) -> None:
    async with site.running():
        job = await run(site, "web")
        answers = await answers_about_others(site, token, job.job_id)
        assert answers == answers[:1] * 3
        assert answers[0][0] == (403 if token else 401)


@pytest.mark.parametrize("own", ["runs", "left", "was replaced"])
async def test_a_caller_with_the_token_of_another_job_does_not_learn_which_jobs_are_placeholders(
    site: Site, own: str
) -> None:
    async with site.running():
        job, other = await run(site, "own", grace_s=1), await run(site, "other")
        token = token_of(job)
        if own == "left":
            site.kube.delete_pod("own", grace_s=1)
            forgotten = site.extender.engine.placeholders.by_job
            await site.until(lambda: not site.jobs_of("own") and forgotten(job.job_id) is None, "its end")
        elif own == "was replaced":
            token = hook_token(b"secret", Mark(CLUSTER, "slurm", site.uid("own"), 90))
        answers = await answers_about_others(site, token, other.job_id)
        assert answers == answers[:1] * 3
        assert answers[0][0] == (404 if own == "left" else 403)


async def test_while_the_owner_of_a_job_is_not_known_no_token_of_another_job_shows_which_are_placeholders(
    site: Site,
) -> None:
    async with site.dying():
        unknown, other = await run(site, "web"), await run(site, "other")
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].pop("status.slurm-extender.io/job-id"))
    site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", "/job/")
    site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "DELETE")
    async with site.running():
        for token in (token_of(unknown), "wrong"):
            answers = await answers_about_others(site, token, other.job_id)
            assert answers == answers[:1] * 3
            assert answers[0][0] == 503


async def test_calls_without_a_proof_have_a_job_read_rarely(site: Site) -> None:
    async with site.running():
        job = await run(site, "web")
        await asyncio.sleep(30)

        def reads() -> int:
            return sum(path.endswith(f"/job/{job.job_id}") for _method, path in site.slurm.restd.requests)

        before, began = reads(), asyncio.get_running_loop().time()
        for _ in range(200):
            await site.post(f"/hooks/jobs/{job.job_id}/teardown", "wrong")
        assert asyncio.get_running_loop().time() - began < 5
        assert reads() - before <= 2


async def test_a_start_or_a_drain_without_a_proof_changes_nothing_and_has_no_job_read(site: Site) -> None:
    async with site.running():
        job, other = await run(site, "web"), await run(site, "other")
        node = job.nodes[0] if job.nodes != other.nodes else "n9"
        await asyncio.sleep(30)
        before, known = len(site.slurm.restd.requests), dict(site.extender.engine.placeholders.all)
        for token in ("", "wrong", token_of(other)):
            started = await site.post(f"/hooks/jobs/{job.job_id}/started", token)
            assert (started.status_code, started.json()) == (202, {"job": job.job_id, "proven": False})
            assert (await site.post(f"/hooks/nodes/{node}/drain", token)).status_code == (403 if token else 401)
        assert site.extender.engine.placeholders.all == known
        assert not [path for _method, path in site.slurm.restd.requests[before:] if "/job/" in path or "/node/" in path]
        assert not site.drained()


async def test_an_unknown_job_has_no_workload(site: Site) -> None:
    async with site.running():
        assert (await site.post("/hooks/jobs/777/teardown?wait=5", "anything")).status_code == 403
        assert (await site.post("/hooks/jobs/777/started", "anything")).json() == {"job": 777, "proven": False}
        assert (await site.post("/hooks/nodes/n9/drain", "anything")).status_code == 403


async def test_a_script_that_starts_before_its_submission_is_answered_does_no_harm(site: Site) -> None:
    async with site.running():
        site.slurm.restd.faults.add(SlurmFault.DELAY, "POST", "/job/submit", times=1, seconds=5)
        site.kube.add_pod("web", annotations=BATCH)
        await site.until(lambda: any(job.state == "RUNNING" for job in site.jobs_of("web")), "its job runs")
        (job,) = site.jobs_of("web")
        assert (await site.post(f"/hooks/jobs/{job.job_id}/started", token_of(job))).status_code == 202
        await site.bound("web")
        assert len(site.live_jobs()) == 1


async def test_after_a_restart_scripts_are_trusted_and_wait_for_their_pods(site: Site) -> None:
    async with site.dying():
        job = await run(site, "web", grace_s=6)
    site.kubelets.stop_s = 6.0
    site.slurm.controller.end(job.job_id, "TIMEOUT")
    async with site.running():
        answer = await site.post(f"/hooks/jobs/{job.job_id}/teardown?wait=60", token_of(job))
        assert (answer.status_code, answer.json()["gone"]) == (200, True)
        assert site.kube.pod("web") is None


async def test_before_the_cluster_is_known_no_hook_says_that_a_pod_is_gone(site: Site) -> None:
    async with site.dying():
        job = await run(site, "web")
    site.network.refuse("kube", 6443)
    async with site.running(ready=False):
        path = f"/hooks/jobs/{job.job_id}/teardown"
        assert (await site.post(path, token_of(job))).status_code == 503
        assert (await site.post(f"/hooks/nodes/{job.nodes[0]}/drain", token_of(job))).status_code == 503


async def test_the_site_key_proves_every_job(keyed: Site) -> None:
    async with keyed.running():
        job = await run(keyed, "web", grace_s=5)
        keyed.kubelets.stop_s = 5.0
        started = await keyed.post(f"/hooks/jobs/{job.job_id}/started", SITE_KEY)
        assert (started.status_code, started.json()["proven"]) == (202, True)
        assert not (await keyed.post(f"/hooks/jobs/{job.job_id}/started", SITE_KEY + "x")).json()["proven"]
        path = f"/hooks/jobs/{job.job_id}/teardown"
        assert (await keyed.post(f"{path}?wait=1", SITE_KEY)).status_code == 202
        assert (await keyed.post(path, SITE_KEY.upper())).status_code == 403
        keyed.slurm.controller.end(job.job_id, "TIMEOUT")
        answer = await keyed.post(f"{path}?wait=60", SITE_KEY)
        assert (answer.status_code, answer.json()["gone"]) == (200, True)
        assert keyed.kube.pod("web") is None


async def test_without_a_configured_site_key_none_is_trusted(site: Site) -> None:
    async with site.running():
        job = await run(site, "web")
        for token in (SITE_KEY, "secret", "None"):
            assert (await site.post(f"/hooks/nodes/{job.nodes[0]}/drain", token)).status_code == 403
            assert (await site.post(f"/hooks/jobs/{job.job_id}/teardown", token)).status_code == 403


async def test_the_site_key_drains_any_node_while_pods_outlive_their_jobs_there(keyed: Site) -> None:
    async with keyed.running():
        job = await ended_unseen(keyed)
        answer = await keyed.post(f"/hooks/nodes/{job.nodes[0]}/drain?reason=Epilog%20asks", SITE_KEY)
        assert (answer.status_code, answer.json()["held"]) == (202, True)
        await drained_at_once_until_gone(keyed, job)


async def test_the_reason_of_a_drain_quotes_the_site_without_blanks(keyed: Site) -> None:
    async with keyed.running():
        job = await held_for_its_pod(keyed)
        assert (await keyed.post(f"/hooks/nodes/{job.nodes[0]}/drain?reason=Epilog asks", SITE_KEY)).status_code == 202
        await asyncio.sleep(1)
        assert drain_reason(keyed, job.nodes[0]) == f"Pod default/web outlives its job {job.job_id} (Epilog_asks)"


async def test_no_text_of_the_site_reads_as_a_removal_of_the_extender(keyed: Site) -> None:
    async with keyed.running():
        job = await held_for_its_pod(keyed)
        assert (await keyed.post(f"/hooks/nodes/{job.nodes[0]}/drain?reason={FACT}", SITE_KEY)).status_code == 202
        await asyncio.sleep(1)
        assert removals_in(keyed.slurm.controller.nodes[job.nodes[0]].reason) == []


async def test_a_pod_whose_job_runs_on_keeps_no_node_drained_beyond_its_neighbours_end(keyed: Site) -> None:
    async with keyed.running():
        first = await run(keyed, "first", grace_s=10)
        keyed.kube.add_pod("second", annotations={**BATCH, "slurm-extender.io/required-nodes": first.nodes[0]})
        assert await keyed.bound("second") == first.nodes[0]
        keyed.kubelets.stop_s = 10.0
        keyed.slurm.controller.end(first.job_id, "TIMEOUT")
        assert (await keyed.post(f"/hooks/nodes/{first.nodes[0]}/drain", SITE_KEY)).status_code == 202
        await keyed.until(lambda: keyed.drained() == list(first.nodes), "the drain")
        await keyed.gone("first")
        await keyed.until(lambda: not keyed.drained(), "no drain", within=10)
        assert keyed.node_of("second")


async def test_a_pod_that_leaves_while_its_neighbour_is_queried_in_slurm_leaves_no_drain_behind(keyed: Site) -> None:
    """An Epilog asks in the last moment; of a workload without Pods nothing is heard any more that lifts a drain."""
    async with keyed.running():
        first = await run(keyed, "first", grace_s=10)
        keyed.kube.add_pod("second", annotations={**BATCH, "slurm-extender.io/required-nodes": first.nodes[0]})
        assert await keyed.bound("second") == first.nodes[0]
        (second,) = keyed.jobs_of("second")
        keyed.kubelets.stop_s = 10.0
        keyed.slurm.controller.end(first.job_id, "TIMEOUT")
        await keyed.until(lambda: "deletionTimestamp" in keyed.pod("first")["metadata"], "its end is asked for")
        await asyncio.sleep(9)
        keyed.slurm.restd.faults.add(SlurmFault.DELAY, "GET", f"/job/{second.job_id}", seconds=2.5)
        call = asyncio.create_task(keyed.post(f"/hooks/nodes/{first.nodes[0]}/drain", SITE_KEY))
        await keyed.gone("first", within=2)
        assert not call.done()
        answer = await call
        assert (answer.status_code, answer.json()["held"]) == (200, False)
        await keyed.until(lambda: not keyed.drained(), "no drain", within=5)
        await asyncio.sleep(10)
        assert not keyed.drained()


async def test_the_site_key_drains_nothing_where_it_would_not_be_lifted(keyed: Site) -> None:
    async with keyed.running():
        job = await run(keyed, "web")
        (empty, *_) = sorted({"n1", "n2", "n3"} - set(job.nodes))
        for node, why in ((job.nodes[0], "run"), (empty, "no Pod of this scheduler")):
            answer = await keyed.post(f"/hooks/nodes/{node}/drain?reason=broken", SITE_KEY)
            assert (answer.status_code, answer.json()["held"]) == (200, False)
            assert why in answer.json()["why"]
        assert (await keyed.post("/hooks/nodes/n9/drain", SITE_KEY)).status_code == 404
        await asyncio.sleep(5)
        assert not keyed.drained()


async def test_while_slurm_does_not_answer_no_hook_says_that_a_job_runs(keyed: Site) -> None:
    async with keyed.running():
        job = await run(keyed, "web")
        keyed.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", f"/job/{job.job_id}")
        path = f"/hooks/nodes/{job.nodes[0]}/drain"
        for token in (SITE_KEY, token_of(job)):
            assert (await keyed.post(path, token)).status_code == 503


async def test_after_a_restart_the_site_key_does_not_show_that_a_job_runs_before_it_is_found(keyed: Site) -> None:
    async with keyed.dying():
        job = await run(keyed, "web")
    keyed.edit_pod("web", lambda pod: pod["metadata"]["annotations"].pop("status.slurm-extender.io/job-id"))
    keyed.network.refuse("slurm", 6820)
    async with keyed.running():
        assert (await keyed.post(f"/hooks/nodes/{job.nodes[0]}/drain", SITE_KEY)).status_code == 503
