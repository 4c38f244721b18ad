"""Which containers a kubelet with the static CPU policy would give CPUs of their own."""

from typing import Any

import pytest

from extender.domain.policy.site import TranslationPolicy
from extender.domain.translation.qos import pinned
from extender.domain.translation.translate import Translated, TranslationRefused, translate
from extender.domain.views import Container, PodView
from tests.builders.pod_views import a_pod


def guaranteed(name: str = "main", cpu: str = "2", memory: str = "1Gi", sidecar: bool = False) -> Container:
    both = {"cpu": cpu, "memory": memory}
    return Container(name, requests=both, limits=both, sidecar=sidecar)


def of(*containers: Container, **fields: Any) -> PodView:
    return a_pod(containers=containers, **fields)


@pytest.mark.parametrize(
    ("pod", "names"),
    [
        (of(guaranteed()), ("main",)),
        (of(guaranteed(cpu="2000m")), ("main",)),
        (of(guaranteed(cpu="1500m")), ()),
        (of(guaranteed("a"), guaranteed("b", cpu="100m")), ("a",)),
        (of(guaranteed(), init_containers=(guaranteed("init"),)), ("init", "main")),
        # Requests are filled from limits.
        (of(Container("main", limits={"cpu": "2", "memory": "1Gi"})), ("main",)),
        # Burstable.
        (a_pod("2", "1Gi"), ()),
        (of(Container("main", requests={"cpu": "2", "memory": "1Gi"}, limits={"cpu": "4", "memory": "1Gi"})), ()),
        (of(guaranteed("a"), Container("b", requests={"cpu": "1"})), ()),
        (of(Container("main")), ()),
        # For the Pod as a whole it says so itself.
        (of(guaranteed(), pod_requests={"cpu": "4", "memory": "2Gi"}), ()),
    ],
)
def test_whole_cpus_of_guaranteed_pods_are_pinned(pod: PodView, names: tuple[str, ...]) -> None:
    assert pinned(pod) == names


def test_a_site_may_refuse_them_and_says_why() -> None:
    refused = translate([of(guaranteed())], {}, TranslationPolicy(refuse_pinned=True), 0.0)
    assert isinstance(refused, TranslationRefused)
    assert "Guaranteed and requests whole CPUs (main)" in refused.faults[0]
    assert "jobs.refusePinnedCpus" in refused.faults[0]
    assert isinstance(translate([of(guaranteed())], {}, TranslationPolicy(), 0.0), Translated)
    assert isinstance(translate([a_pod("2")], {}, TranslationPolicy(refuse_pinned=True), 0.0), Translated)
