"""Nodes of Kubernetes that Slurm does not know are registered there, and stay what they are."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.nodes.external_nodes import marked
from extender.domain.wellknown import SLURM_NODE
from simulator.node_names import NodeNaming
from simulator.slurm.faults import SlurmFault
from simulator.slurm.job_lifecycle import SimConfig
from simulator.slurm.records import SimNode, SimPartition
from tests.builders.process_site import NAMES, REGISTERED, REGISTERING, Site, unhurried_site
from tests.builders.registered_nodes import (
    EXTERNAL,
    NODE,
    add,
    count_requests,
    daemon,
    features,
    has_cpus,
    registered,
    relabel,
    resize,
    shown,
    there,
)

pytestmark = pytest.mark.looptime


async def test_a_labelled_node_is_registered_as_it_is_and_a_pod_is_placed_on_it() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site, gpus=2, zone="z1", rack="r1")
        daemon(site, "cni", "500m")
        async with site.running(changed=REGISTERING):
            node = await registered(site)
            assert (node.cpus, node.memory_mb, node.gres, node.address) == (7, 15 * 1024, {"gpu": 2}, "10.0.0.9")
            assert (features(node), node.topology, node.external) == ({"k8s", "zone-z1"}, "tree:z1:r1", True)
            assert marked(node.features)[1] == NODE
            site.kube.add_pod("web", annotations=EXTERNAL)
            assert await site.bound("web") == NODE
            assert site.events(NODE) == []
            assert count_requests(site, "POST", "/new/node") == 1


async def test_without_the_group_nothing_is_registered_and_nothing_that_was_is_touched() -> None:
    async with unhurried_site() as site:
        add(site)
        async with site.running():
            await asyncio.sleep(120)
            assert there(site) is None
        async with site.running(changed=REGISTERING):
            await registered(site)
        relabel(site, registered=None)
        async with site.running():
            site.kube.add_pod("web", annotations=EXTERNAL, node_selector={"kubernetes.io/hostname": NODE})
            await site.bound("web")
            await asyncio.sleep(300)
            assert there(site) is not None
            assert not site.drained()


@pytest.mark.parametrize("cpu", ["4", "16"])
async def test_another_size_empties_the_node_while_a_pod_runs_on_and_recreates_it_after(cpu: str) -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        async with site.running(changed=REGISTERING):
            await registered(site)
            site.kube.add_pod("web", annotations=EXTERNAL)
            await site.bound("web")
            resize(site, cpu=cpu)
            await site.until(lambda: site.drained() == [NODE], "the drain", within=20)
            await asyncio.sleep(300)
            assert site.slurm.controller.nodes[NODE].cpus == 8
            assert "Pods of this scheduler are there" in (await shown(site))[0]["waits"]
            assert site.kube.pod("web") is not None
            site.kube.delete_pod("web", grace_s=1)
            await has_cpus(site, int(cpu))
            await asyncio.sleep(10)
            assert not await shown(site)
            site.kube.add_pod("next", cpu=cpu, annotations=EXTERNAL)
            assert await site.bound("next") == NODE


async def test_a_size_that_passes_empties_nothing() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site, gpus=4)
        async with site.running(changed=REGISTERING.replace("settle: 2s", "settle: 30s")):
            await registered(site)
            resize(site, **{"nvidia.com/gpu": None})
            await asyncio.sleep(20)
            resize(site, **{"nvidia.com/gpu": "4"})
            await asyncio.sleep(120)
            assert (count_requests(site, "POST", "/node/"), count_requests(site, "DELETE", "/node/")) == (0, 0)


async def test_a_lost_gpu_is_lost_in_slurm_too() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site, gpus=4)
        async with site.running(changed=REGISTERING):
            assert (await registered(site)).gres == {"gpu": 4}
            resize(site, **{"nvidia.com/gpu": "3"})
            await site.until(lambda: (one := there(site)) is not None and one.gres == {"gpu": 3}, "3 GPUs", within=60)


async def test_pods_of_daemon_sets_that_are_replaced_one_by_one_empty_nothing_and_another_one_does() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        daemon(site, "cni-1", "1")
        async with site.running(changed=REGISTERING.replace("settle: 2s", "settle: 10s")):
            await has_cpus(site, 7)
            site.kube.delete_pod("cni-1", "kube-system", grace_s=1)
            await asyncio.sleep(5)
            daemon(site, "cni-2", "1")
            await asyncio.sleep(60)
            assert count_requests(site, "DELETE", "/node/") == 0
            daemon(site, "more", "1")
            await has_cpus(site, 6)


async def test_labels_are_followed_in_place_also_while_pods_run() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site, zone="z1", rack="r1")
        async with site.running(changed=REGISTERING):
            node = await registered(site)
            site.kube.add_pod("web", annotations=EXTERNAL)
            await site.bound("web")
            relabel(site, zone="z2")
            await site.until(lambda: features(node) == {"k8s", "zone-z2"}, "the features", within=10)
            await site.until(lambda: node.topology == "tree:z2:r1", "the topology", within=10)
            assert there(site) is node
            assert not node.drained


@pytest.mark.parametrize("how", ["label", "deleted", "remove"])
async def test_a_node_that_is_not_to_be_there_is_emptied_and_deleted_and_comes_back(how: str) -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        async with site.running(changed=REGISTERING):
            await registered(site)
            site.kube.add_pod("web", annotations=EXTERNAL)
            await site.bound("web")
            if how == "label":
                relabel(site, registered=None)
            elif how == "deleted":
                site.kube.delete_pod("web", grace_s=1)
                await site.gone("web")
                site.delete_node(NODE)
            if how != "remove":
                await site.until(lambda: there(site) is None or site.drained() == [NODE], "the drain", within=20)
        async with site.running(changed=REGISTERING + ("    remove: true\n" if how == "remove" else "")):
            if how != "deleted":
                await site.until(lambda: site.drained() == [NODE], "the drain", within=60)
                await asyncio.sleep(60)
                assert there(site) is not None
                site.kube.delete_pod("web", grace_s=1)
            await site.until(lambda: there(site) is None, "its end in Slurm", within=60)
        async with site.running(changed=REGISTERING):
            if how == "label":
                relabel(site, registered="yes")
            elif how == "deleted":
                add(site)
            await has_cpus(site, 8)


async def test_nodes_that_another_client_made_are_left_alone_and_that_is_reported() -> None:
    made = SimNode(NODE, cpus=4, memory_mb=1000, external=True, made=True)
    other = SimNode("k8", cpus=4, memory_mb=1000, external=True, made=True, features=("slurm-extender:x:k8",))
    async with unhurried_site(nodes=(made, other)) as site:
        for name in (NODE, "k8"):
            site.edit_node(name, lambda node: node["metadata"]["labels"].update(REGISTERED))
        async with site.running(changed=REGISTERING):
            await asyncio.sleep(60)
            site.delete_node("k8")
            await asyncio.sleep(120)
            assert list(site.slurm.controller.nodes.values()) == [made, other]
            assert not made.drained
            assert "SlurmNodeNotRegistered" in site.events(NODE)
            note = "this extender did not register it for Node k9. Delete Slurm node k9"
            assert any(note in text for text in site.notes(NODE))
            assert await gauge(site, "external_nodes", "leave") == 1


async def gauge(site: Site, name: str, kind: str) -> float:
    lines = (await site.get(8082, "/metrics")).text.splitlines()
    wanted = f'slurm_extender_{name}{{state="{kind}"}} '
    return next((float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)), 0.0)


async def test_a_node_of_which_its_slurmd_is_known_is_not_registered_again() -> None:
    async with unhurried_site(naming=NodeNaming.LABEL) as site:
        first = site.names.kube(NAMES[0])
        site.edit_node(first, lambda node: node["metadata"]["labels"].update(REGISTERED))
        async with site.running(changed=REGISTERING):
            await asyncio.sleep(60)
            assert set(site.slurm.controller.nodes) == set(NAMES)


async def test_a_slurm_that_cannot_make_a_node_again_gets_no_request_and_that_is_said() -> None:
    async with unhurried_site(nodes=(), release="25.11.8") as site:
        add(site)
        async with site.running(changed=REGISTERING):
            await registered(site)
            resize(site, cpu="16")
            await asyncio.sleep(120)
            assert site.slurm.controller.nodes[NODE].cpus == 8
            assert not site.drained()
            assert any("Upgrade Slurm to 26.05.3." in text for text in site.notes(NODE))
            relabel(site, zone="z1")
            resize(site, cpu="8")
            node = site.slurm.controller.nodes[NODE]
            await site.until(lambda: "zone-z1" in node.features, "the feature", within=10)
            site.delete_node(NODE)
            await site.until(lambda: site.drained() == [NODE], "the drain", within=30)
            await asyncio.sleep(120)
            assert site.drained() == [NODE]
            add(site)
            await site.until(lambda: not site.drained(), "the end of the drain", within=30)


async def test_a_slurm_without_external_nodes_gets_no_request_for_any_and_that_is_said() -> None:
    async with unhurried_site(release="25.05.9") as site:
        add(site)
        async with site.running(changed=REGISTERING):
            await asyncio.sleep(60)
            assert count_requests(site, "POST", "/new/node") == 0
            assert any("Upgrade Slurm to 25.11.6" in text for text in site.notes(NODE))


async def test_a_foreign_drain_outlives_another_size_and_is_not_lost_with_the_node() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        async with site.running(changed=REGISTERING):
            node = await registered(site)
            site.slurm.controller.drain(NODE, "disk")
            resize(site, cpu="16")
            await asyncio.sleep(120)
            assert there(site) is node
            assert (node.drained, node.reason) == (True, "disk")
            assert "drained by another author: disk" in (await shown(site))[0]["waits"]
            site.slurm.controller.resume(NODE)
            await has_cpus(site, 16)


async def test_a_node_that_is_held_for_a_pod_which_may_still_run_is_not_deleted() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        async with site.running(changed=REGISTERING):
            await registered(site)
            site.kube.add_pod("web", annotations=EXTERNAL)
            await site.bound("web")
            site.kubelets.take_down(NODE)
            site.report_ready(NODE, False)
            site.kube.delete_pod("web", grace_s=0)
            relabel(site, registered=None)
            await site.until(lambda: not site.live_jobs(), "the end of its job", within=120)
            await asyncio.sleep(120)
            assert there(site) is not None
            assert "it is held" in (await shown(site))[0]["waits"]
            site.kubelets.bring_back(NODE)
            await site.until(lambda: there(site) is None, "its end in Slurm", within=300)


async def test_a_job_of_another_user_is_waited_for() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        async with site.running(changed=REGISTERING):
            node = await registered(site)
            job = await site.submit_as_another_user(wishes={"flags": ["EXTERNAL_JOB"]})
            await site.until(lambda: site.slurm.controller.jobs[job].running, "its start")
            resize(site, cpu="16")
            await asyncio.sleep(120)
            assert there(site) is node
            site.slurm.controller.cancel(job)
            await has_cpus(site, 16)


async def test_a_node_that_is_not_ready_is_neither_registered_nor_recreated() -> None:
    async with unhurried_site(nodes=()) as site:
        site.kube.add_node(NODE, cpu="8", memory="16Gi", labels=REGISTERED, ready=False)
        async with site.running(changed=REGISTERING):
            await asyncio.sleep(60)
            assert there(site) is None
            site.report_ready(NODE, True)
            await has_cpus(site, 8)
            site.report_ready(NODE, False)
            resize(site, cpu="1")
            await asyncio.sleep(60)
            assert count_requests(site, "DELETE", "/node/") == 0
            site.report_ready(NODE, True)
            await has_cpus(site, 1)


@pytest.mark.parametrize(("field", "why"), [("addresses", "InternalIP"), ("allocatable", "lacks its CPUs")])
async def test_what_a_node_does_not_say_changes_nothing_and_is_said(field: str, why: str) -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        async with site.running(changed=REGISTERING):
            await registered(site)
            site.edit_node(NODE, lambda node: node["status"].pop(field))
            await asyncio.sleep(60)
            assert there(site) is not None
            assert not site.drained()
            assert any(why in text for text in site.notes(NODE))
            assert await gauge(site, "external_nodes", "unfit") == 1


async def test_many_nodes_that_are_gone_at_once_are_not_taken_out_at_once() -> None:
    names = [f"k{number}" for number in range(20)]
    async with unhurried_site(nodes=()) as site:
        for name in names:
            add(site, name)
        async with site.running(changed=REGISTERING + "orphans: {massGracePeriod: 120}\n"):
            await site.until(lambda: set(site.slurm.controller.nodes) == set(names), "all of them", within=30)
            for name in names[:10]:
                site.delete_node(name)
            await asyncio.sleep(60)
            assert set(site.slurm.controller.nodes) == set(names)
            for name in names[:5]:
                add(site, name)
            await asyncio.sleep(300)
            assert set(site.slurm.controller.nodes) == set(names[:5] + names[10:])


async def test_another_name_is_given_when_the_old_one_is_gone() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        async with site.running(changed=REGISTERING):
            await registered(site)
            site.kube.add_pod("web", annotations=EXTERNAL)
            await site.bound("web")
            relabel(site, **{SLURM_NODE: "s9"})
            await asyncio.sleep(60)
            assert set(site.slurm.controller.nodes) == {NODE}
            site.kube.delete_pod("web", grace_s=1)
            await site.until(lambda: set(site.slurm.controller.nodes) == {"s9"}, "the other name", within=60)
            site.kube.add_pod("next", annotations=EXTERNAL)
            assert await site.bound("next") == NODE


async def test_two_nodes_with_one_name_in_slurm_are_neither() -> None:
    async with unhurried_site(nodes=()) as site:
        for name in ("k1", "k2"):
            add(site, name)
            site.edit_node(name, lambda node: node["metadata"]["labels"].update({SLURM_NODE: "s1"}))
        async with site.running(changed=REGISTERING):
            await asyncio.sleep(60)
            assert not site.slurm.controller.nodes
            assert any("Nodes k1, k2 all state the Slurm name s1" in text for text in site.notes("k2"))


async def test_a_refusal_is_reported_with_what_to_do_and_tried_again_less_and_less_often() -> None:
    async with unhurried_site(slurm_config=SimConfig(max_node_count=3)) as site:
        add(site)
        async with site.running(changed=REGISTERING):
            await asyncio.sleep(300)
            assert 4 <= count_requests(site, "POST", "/new/node") <= 8
            assert any("MaxNodeCount" in text for text in site.notes(NODE))
            site.slurm.controller.config = SimConfig(max_node_count=4)
            await site.until(lambda: there(site) is not None, "room for it", within=400)


async def test_what_slurm_refuses_of_many_nodes_is_requested_by_one_and_then_they_all_are_there() -> None:
    names = [f"k{number}" for number in range(12)]
    async with unhurried_site(nodes=()) as site:
        for name in names:
            add(site, name)
        site.slurm.restd.faults.add(SlurmFault.REFUSE, "POST", "/new/node", number=2010)
        async with site.running(changed=REGISTERING):
            await asyncio.sleep(330)  # each waits for five minutes by itself
            assert count_requests(site, "POST", "/new/node") <= 330 / 15 + 8 * len(names)
            site.slurm.restd.faults.clear()
            await site.until(lambda: len(site.slurm.controller.nodes) == len(names), "all of them", within=25)


async def test_a_partition_of_a_node_set_has_the_registered_nodes() -> None:
    async with unhurried_site(nodes=()) as site:
        site.slurm.controller.partitions["k8s"] = SimPartition("k8s", node_set="k8s")
        add(site)
        async with site.running(changed=REGISTERING):
            await registered(site)
            site.kube.add_pod("web", annotations=EXTERNAL | {"slurm-extender.io/partition": "k8s"})
            assert await site.bound("web") == NODE


async def test_a_node_that_moves_to_another_node_set_is_recreated() -> None:
    changed = REGISTERING.replace('"zone-{value}"', '"zone-{value}", nodeSet: true')
    async with unhurried_site(nodes=()) as site:
        site.slurm.controller.partitions["east"] = SimPartition("east", node_set="zone-east")
        add(site, zone="west")
        async with site.running(changed=changed):
            await registered(site)
            site.kube.add_pod("web", annotations=EXTERNAL | {"slurm-extender.io/partition": "east"})
            await asyncio.sleep(30)
            relabel(site, zone="east")
            assert await site.bound("web") == NODE


async def test_a_resource_that_slurm_conf_does_not_name_is_left_out_and_that_is_said_once() -> None:
    changed = REGISTERING + 'jobs: {gres: [{resource: "example.com/fpga", gres: fpga}]}\n'
    async with unhurried_site(nodes=()) as site:
        add(site)
        resize(site, **{"example.com/fpga": "2"})
        async with site.running(changed=changed):
            await registered(site)
            await asyncio.sleep(120)
            assert count_requests(site, "DELETE", "/node/") == 0
            assert any("GresTypes of slurm.conf must name fpga" in text for text in site.notes(NODE))


async def test_what_slurm_silently_makes_otherwise_is_not_recreated_indefinitely_and_that_is_reported() -> None:
    changed = REGISTERING + 'jobs: {gres: [{resource: "example.com/fpga", gres: fpga}]}\n'
    async with unhurried_site(nodes=()) as site:
        site.slurm.restd.faults.add(SlurmFault.REFUSE, "GET", "/conf", times=10**6, number=-1)
        add(site)
        resize(site, **{"example.com/fpga": "2"})
        async with site.running(changed=changed):
            await registered(site)
            await asyncio.sleep(120)
            assert count_requests(site, "POST", "/new/node") == 1
            assert any("Slurm creates it with other values" in text for text in site.notes(NODE))


async def test_a_node_that_slurmctld_has_in_an_old_state_is_recreated_once_more() -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        async with site.running(changed=REGISTERING):
            node = await registered(site)
            await asyncio.sleep(10)
            node.cpus = 4
            await has_cpus(site, 8)


async def test_no_node_is_said_to_be_alone_that_is_about_to_be_registered() -> None:
    async with unhurried_site() as site:
        add(site)
        site.kube.add_node("k8")
        async with site.running(changed=REGISTERING):
            await registered(site)
            await asyncio.sleep(10)
            assert ("NoSlurmNode" in site.events("k8"), "NoSlurmNode" in site.events(NODE)) == (True, False)


async def test_five_hundred_nodes_are_registered_in_less_than_thirty_seconds() -> None:
    names = [f"k{number}" for number in range(500)]
    async with unhurried_site(nodes=()) as site:
        site.network.latency = lambda: 0.005
        for name in names:
            add(site, name)
        async with site.running(changed=REGISTERING):
            await site.until(lambda: len(site.slurm.controller.nodes) == len(names), "all of them", within=30)
            await asyncio.sleep(30)
            assert count_requests(site, "POST", "/new/node") == len(names)
            assert not site.drained()


@pytest.mark.parametrize(
    "said", ["gpu[1-99]", "a,b", "a b", "k/9", "123", "1e3", "null", "\u00e9", "x CPUs=99 NodeName=y"]
)
async def test_a_name_that_slurm_cannot_take_is_said_and_registers_nothing(said: str) -> None:
    async with unhurried_site(nodes=()) as site:
        add(site)
        add(site, "k10")
        site.edit_node(NODE, lambda node: node["metadata"].setdefault("annotations", {}).update({SLURM_NODE: said}))
        async with site.running(changed=REGISTERING):
            await registered(site, "k10")
            await asyncio.sleep(60)
            assert set(site.slurm.controller.nodes) == {"k10"}
            assert "SlurmNodeNotRegistered" in site.events(NODE)
            assert any(said in text and "node name" in text for text in site.notes(NODE))
            site.edit_node(NODE, lambda node: node["metadata"]["annotations"].clear())
            await site.until(lambda: there(site) is not None, "a good name", within=400)
