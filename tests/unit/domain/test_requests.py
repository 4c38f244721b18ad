"""Effective requests are those that kube-scheduler and kubelet count.

The expected numbers of the first test were computed by PodRequests of k8s.io/component-helpers 0.36.3.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.pods.requests import pod_requests
from extender.domain.quantity import ONE, millicpus_up, parse
from extender.domain.views import Container, PodView
from tests.builders.pod_views import a_pod


def cpu(name: str, request: str, sidecar: bool = False) -> Container:
    return Container(name, requests={"cpu": request}, sidecar=sidecar)


def millis(pod: PodView) -> int:
    return millicpus_up(pod_requests(pod).get("cpu", 0))


@pytest.mark.parametrize(
    ("containers", "init_containers", "expected"),
    [
        ((cpu("a", "1"), cpu("b", "500m")), (), 1500),
        ((cpu("a", "1"),), (cpu("i", "3"), cpu("j", "2")), 3000),
        ((cpu("a", "1"),), (cpu("s", "2", sidecar=True),), 3000),
        # The init container runs beside the sidecar before it, not beside the one after it.
        ((cpu("a", "1"),), (cpu("s", "2", sidecar=True), cpu("i", "4")), 6000),
        ((cpu("a", "1"),), (cpu("i", "4"), cpu("s", "2", sidecar=True)), 4000),
        ((cpu("a", "5"),), (cpu("s", "2", sidecar=True), cpu("i", "4"), cpu("t", "1", sidecar=True)), 8000),
    ],
)
def test_containers_init_containers_and_sidecars_add_up_as_they_run(
    containers: tuple[Container, ...], init_containers: tuple[Container, ...], expected: int
) -> None:
    assert millis(a_pod(containers=containers, init_containers=init_containers)) == expected


def test_overhead_is_added_to_everything_else() -> None:
    pod = a_pod(cpu="1", overhead={"cpu": "250m", "memory": "64Mi"})
    assert pod_requests(pod) == {"cpu": parse("1250m"), "memory": parse("1Gi") + parse("64Mi")}


def test_requests_of_the_pod_as_a_whole_win_and_overhead_still_comes_on_top() -> None:
    pod = a_pod(cpu="1", pod_requests={"cpu": "4"}, overhead={"cpu": "1"})
    assert millis(pod) == 5000
    assert pod_requests(pod)["memory"] == parse("1Gi")


def test_only_cpu_memory_and_huge_pages_can_be_given_for_the_pod_as_a_whole() -> None:
    pod = a_pod(pod_requests={"hugepages-2Mi": "4Mi", "nvidia.com/gpu": "9", "ephemeral-storage": "1Gi"})
    assert set(pod_requests(pod)) == {"cpu", "memory", "hugepages-2Mi"}


def test_a_limit_counts_where_no_request_is_given() -> None:
    container = Container("main", requests={"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "3"})
    assert pod_requests(a_pod(containers=(container,))) == {
        "cpu": ONE,
        "memory": parse("1Gi"),
        "nvidia.com/gpu": 3 * ONE,
    }


def test_a_limit_of_the_whole_pod_counts_only_where_no_container_says_anything() -> None:
    pod = a_pod(cpu="1", memory="", pod_limits={"cpu": "8", "memory": "4Gi"})
    assert pod_requests(pod) == {"cpu": ONE, "memory": parse("4Gi")}


def test_an_unreadable_quantity_is_named_with_its_place() -> None:
    with pytest.raises(ValueError, match="container main: resources: cpu: 'lots' is no Kubernetes quantity"):
        pod_requests(a_pod(cpu="lots"))


@given(st.lists(st.integers(0, 64)), st.lists(st.tuples(st.integers(0, 64), st.booleans())))
def test_the_pod_never_gets_less_than_it_needs_at_any_moment(regular: list[int], init: list[tuple[int, bool]]) -> None:
    pod = a_pod(
        containers=tuple(cpu(f"c{i}", str(n)) for i, n in enumerate(regular)),
        init_containers=tuple(cpu(f"i{i}", str(n), sidecar) for i, (n, sidecar) in enumerate(init)),
    )
    moments = [sum(regular) + sum(n for n, sidecar in init if sidecar)]
    for at, (n, _) in enumerate(init):
        moments.append(n + sum(earlier for earlier, sidecar in init[:at] if sidecar))
    assert millis(pod) == 1000 * max(moments)


def resizing(*held: dict[str, str], **fields: Any) -> PodView:
    container = Container("main", requests={"cpu": "2", "memory": "1Gi"}, held=held)
    return a_pod(containers=(container,), **fields)


def test_while_a_pod_is_resized_the_most_of_requested_set_aside_and_given_counts() -> None:
    assert millis(resizing({"cpu": "4", "memory": "2Gi"})) == 4000  # it shrinks
    assert millis(resizing({"cpu": "1", "memory": "1Gi"})) == 2000  # it grows
    assert millis(resizing({"cpu": "1"}, {"cpu": "3"})) == 3000
    assert pod_requests(resizing({"memory": "4Gi"})) == {"cpu": 2 * ONE, "memory": parse("4Gi")}


def test_a_resize_that_kubelet_has_refused_does_not_count() -> None:
    assert millis(resizing({"cpu": "1"}, {"cpu": "500m"}, resize_refused=True)) == 1000
    assert pod_requests(resizing({"cpu": "1"}, resize_refused=True))["memory"] == parse("1Gi")


def test_a_resize_of_the_pod_as_a_whole_counts_likewise() -> None:
    assert millis(a_pod(pod_requests={"cpu": "2"}, pod_held=({"cpu": "5"},))) == 5000
    assert millis(a_pod(cpu="1", pod_held=({"cpu": "5"},))) == 1000
