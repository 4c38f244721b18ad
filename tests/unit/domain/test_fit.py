"""A Pod is sent to a node only if kubelet would admit it.

The rules were compared with AdmissionCheck of k8s.io/kubernetes 1.36.3, which kubelet calls, on 40 000 random nodes.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.placing.fit import Busy, Fits, Misfits, fit
from extender.domain.views import Container, HostPort, PodView
from tests.builders.pod_views import a_node, a_pod, on_port

ENDING = 2_000_000.0


def other(cpu: str = "1", memory: str = "1Gi", name: str = "db", **fields: Any) -> PodView:
    return a_pod(cpu, memory, uid=f"uid-{name}", name=name, **fields)


def test_a_pod_that_fits_fits() -> None:
    assert fit(a_pod("4", "16Gi"), a_node(cpu="8", memory="32Gi"), [other("4", "16Gi")]) == Fits()


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (a_pod("4001m", "1Gi"), "lacks cpu: 4001m asked, 4000m of 8000m in use"),
        (a_pod("1", "28Gi"), "lacks memory: "),
        (a_pod(more={"ephemeral-storage": "1Gi"}), "lacks ephemeral-storage: "),
        (a_pod(more={"nvidia.com/gpu": "3"}), "lacks nvidia.com/gpu: 3 asked, 0 of 2 in use"),
        (a_pod(more={"hugepages-2Mi": "2Mi"}), "lacks hugepages-2Mi: "),
        # kubelet would start this Pod without its device; that is worse than not starting it.
        (a_pod(more={"rdma/hca": "1"}), "lacks rdma/hca: 1 asked, 0 of 0 in use"),
    ],
)
def test_a_pod_for_which_something_is_lacking_does_not(pod: PodView, said: str) -> None:
    verdict = fit(pod, a_node("k1", "8", "32Gi", more={"nvidia.com/gpu": "2"}), [other("4", "8Gi")])
    assert isinstance(verdict, Misfits)
    assert verdict.text.startswith(f"Node k1 {said}")


def test_everything_that_is_lacking_is_said() -> None:
    verdict = fit(on_port(80, cpu="9", memory="99Gi"), a_node(pods="1"), [replace(on_port(80), uid="2")])
    assert isinstance(verdict, Misfits)
    for word in ("Pods of at most 1", "lacks cpu", "lacks memory", "port 80 taken by team/web"):
        assert word in verdict.text


def test_what_only_ending_pods_hold_is_waited_for() -> None:
    leaving = other("6", name="old", deleted_at=ENDING)
    verdict = fit(a_pod("4"), a_node(cpu="8"), [other("2"), leaving])
    assert isinstance(verdict, Busy)
    assert verdict.text.endswith("ending there: team/old")
    assert "team/db" not in verdict.text


def test_what_would_be_lacking_anyway_is_not_waited_for() -> None:
    leaving = other("2", name="old", deleted_at=ENDING)
    assert isinstance(fit(a_pod("4"), a_node(cpu="8"), [other("6"), leaving]), Misfits)


def test_an_ending_pod_that_is_not_in_the_way_does_not_matter() -> None:
    assert fit(a_pod("4"), a_node(cpu="8"), [other("4", deleted_at=ENDING)]) == Fits()


def test_finished_pods_and_the_pod_itself_hold_nothing() -> None:
    pod = a_pod("8", "32Gi")
    done = other("8", phase="Succeeded"), other("8", name="x", phase="Failed"), other("8", name="y", phase="Failed")
    assert fit(pod, a_node(cpu="8", memory="32Gi", pods="1"), [pod, *done]) == Fits()


def test_the_number_of_pods_is_limited_even_for_those_that_request_nothing() -> None:
    best_effort = a_pod("", "")
    assert fit(best_effort, a_node(pods="2"), [other()]) == Fits()
    assert isinstance(fit(best_effort, a_node(pods="1"), [other()]), Misfits)
    assert isinstance(fit(best_effort, a_node(pods="1"), [other(deleted_at=ENDING)]), Busy)


def test_a_node_that_does_not_say_how_many_pods_it_takes_takes_none() -> None:
    # As in kubelet, where the missing number is 0.
    assert isinstance(fit(a_pod(), replace(a_node(), allocatable={"cpu": "8", "memory": "32Gi"}), []), Misfits)


def test_a_pod_that_requests_nothing_fits_on_an_overcommitted_node() -> None:
    assert fit(a_pod("", ""), a_node(cpu="1"), [other("4")]) == Fits()


def test_each_pod_is_rounded_up_by_itself_as_kubelet_does() -> None:
    crumbs = [other("100u", name=str(n)) for n in range(10)]
    assert fit(a_pod("990m"), a_node(cpu="1"), crumbs) == Fits()
    assert isinstance(fit(a_pod("991m"), a_node(cpu="1"), crumbs), Misfits)


@pytest.mark.parametrize(
    ("wanted", "held", "free"),
    [
        (HostPort(80), HostPort(80), False),
        (HostPort(80), HostPort(81), True),
        (HostPort(80, "UDP"), HostPort(80, "TCP"), True),
        (HostPort(80, ""), HostPort(80, "TCP"), False),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2"), True),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.1"), False),
        (HostPort(80, ip="10.0.0.1"), HostPort(80), False),
        (HostPort(80, ip="0.0.0.0"), HostPort(80, ip="10.0.0.1"), False),
        (HostPort(0), HostPort(0), True),
        # kubelet takes only the IPv4 wildcard for every address.
        (HostPort(80, ip="::"), HostPort(80, ip="10.0.0.1"), True),
    ],
)
def test_a_host_port_is_taken_by_its_address_protocol_and_number(wanted: HostPort, held: HostPort, free: bool) -> None:
    pod = a_pod(containers=(Container("c", host_ports=(wanted,)),))
    present = a_pod(uid="2", name="db", containers=(Container("c", host_ports=(held,)),))
    assert isinstance(fit(pod, a_node(), [present]), Fits) is free
    assert isinstance(fit(pod, a_node(), [replace(present, deleted_at=ENDING)]), Fits if free else Busy)


@pytest.mark.parametrize(("sidecar", "free"), [(True, False), (False, True)])
def test_of_init_containers_only_sidecars_keep_a_port(sidecar: bool, free: bool) -> None:
    init = Container("i", host_ports=(HostPort(80),), sidecar=sidecar)
    assert isinstance(fit(on_port(80), a_node(), [a_pod(uid="2", init_containers=(init,))]), Fits) is free


def test_a_node_that_has_reported_nothing_yet_is_waited_for() -> None:
    assert isinstance(fit(a_pod(), replace(a_node(), allocatable={}), []), Busy)


def test_a_pod_that_cannot_be_read_does_not_fit() -> None:
    verdict = fit(a_pod("lots"), a_node(), [])
    assert isinstance(verdict, Misfits)
    assert "'lots'" in verdict.text


_cpu = st.integers(0, 9)


@given(_cpu, _cpu, st.lists(st.tuples(_cpu, st.booleans())))
def test_the_verdict_is_the_arithmetic_of_the_node(requested: int, room: int, present: list[tuple[int, bool]]) -> None:
    pods = [
        other(str(cpu), "0", name=str(n), deleted_at=ENDING if ending else None)
        for n, (cpu, ending) in enumerate(present)
    ]
    staying = sum(cpu for cpu, ending in present if not ending)
    everything = sum(cpu for cpu, _ in present)
    verdict = fit(a_pod(str(requested), "0"), a_node(cpu=str(room)), pods)
    if requested == 0 or requested + everything <= room:
        assert verdict == Fits()
    else:
        assert isinstance(verdict, Busy if requested + staying <= room else Misfits)
