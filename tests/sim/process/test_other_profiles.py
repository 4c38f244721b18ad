"""`/bind` for Pods of other scheduler names: those of the profiles that are listed are bound, and no others."""

from __future__ import annotations

import pytest

from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

OTHER = "default-scheduler"
LISTED = f"scheduler: {{otherProfiles: [{OTHER}]}}\n"


async def bind_error(site: Site, name: str, node: str) -> str:
    """Ask `/bind`, as whoever reaches it can; the sentence that is answered, "" where the Pod was bound."""
    binding = {"PodName": name, "PodNamespace": "default", "PodUID": site.uid(name), "Node": node}
    said: str = (await site.post_to_extender("/scheduler/bind", binding))["Error"]
    return said


async def test_a_pod_of_another_scheduler_is_not_bound_for_any_caller(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("other", scheduler=OTHER)
        site.kube.add_pod("placed")
        await site.bound("placed")
        said = await bind_error(site, "other", "n1")
        assert said.startswith(f"the Pod's schedulerName is {OTHER}, whose Pods this extender does not bind")
        assert "scheduler.otherProfiles" in said
        assert site.node_of("other") == ""


async def test_pods_of_the_profiles_that_are_listed_are_bound_as_requested_and_outside_of_slurm(site: Site) -> None:
    async with site.running(changed=LISTED):
        site.kube.add_pod("other", scheduler=OTHER)
        site.kube.add_pod("third", scheduler="third")
        site.kube.add_pod("placed")
        await site.bound("placed")
        assert await bind_error(site, "other", "n2") == ""
        assert site.node_of("other") == "n2"
        assert await bind_error(site, "third", "n2") != ""
        assert site.node_of("third") == ""
        assert len(site.live_jobs()) == 1


async def test_a_pod_of_the_scheduler_is_never_bound_to_another_node_than_slurm_gave(site: Site) -> None:
    async with site.running(changed=LISTED):
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
        assert "Slurm has no allocation" in await bind_error(site, "waits", "n1")
        assert site.node_of("waits") == ""
