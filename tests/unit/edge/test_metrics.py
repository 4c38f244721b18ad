"""What is counted, when, and that no label has an unbounded number of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extender.domain.events import EndKind, MemberRef
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Member, Placeholder, State
from extender.observability.metrics.described import PREFIX, Described, Sort
from extender.observability.metrics.endpoints import kube_endpoint, slurm_endpoint
from extender.observability.metrics.registry import Metrics
from extender.observability.metrics.scrape import Sources, Values
from tests.builders.placeholders import in_state
from tests.builders.services import StillClock

MEMBER = Member(MemberRef("u1", "ns", "pod-with-a-name"))


class Counted:
    """Metrics on a clock that a test moves, and the values that a scrape shows."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.metrics = Metrics(self.clock)
        self.now = Placeholder("u1", members=(MEMBER,))

    def move(self, state: State, after: float = 0.0, kind: EndKind = EndKind.FAILED, **changes: object) -> None:
        self.clock.time += after
        payload = in_state(state, kind=kind).payload
        before, self.now = self.now, replace(self.now, payload=payload, **changes)  # type: ignore[arg-type]
        self.metrics.moved(before, self.now)

    def value(self, name: str, **labels: str) -> float:
        text = self.metrics.render().decode()
        found = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"slurm_extender_{name}" and labels.items() <= sample.labels.items()
        ]
        return sum(found)


def test_the_phases_of_a_placeholder_are_timed() -> None:
    counted = Counted()
    counted.move(State.SUBMITTING)
    counted.move(State.WAITING, 2)
    counted.move(State.GRANTED, 30)
    counted.move(State.BOUND, 1)
    counted.move(State.LOST, 500, kind=EndKind.PREEMPTED)
    counted.move(State.GONE, 7)
    for phase, seconds in (("submit", 2), ("grant", 30), ("bind", 1), ("gone", 7)):
        assert counted.value("placeholder_phase_duration_seconds_sum", phase=phase) == seconds
        assert counted.value("placeholder_phase_duration_seconds_count", phase=phase) == 1
    assert counted.value("allocations_lost_total", reason=EndKind.PREEMPTED.value) == 1
    assert counted.metrics.followed == 0


def test_a_placeholder_adopted_at_a_start_is_not_timed_as_submitted() -> None:
    counted = Counted()
    counted.move(State.UNSURE)
    counted.move(State.WAITING, 3)
    counted.move(State.GRANTED, 5)
    assert counted.value("placeholder_phase_duration_seconds_count") == 0


def test_a_second_try_is_timed_again() -> None:
    counted = Counted()
    for _ in range(2):
        counted.move(State.SUBMITTING)
        counted.move(State.WAITING, 1)
        counted.move(State.ABSENT, 100)
    assert counted.value("placeholder_phase_duration_seconds_sum", phase="submit") == 2


def test_what_a_pod_took_in_all_counts_every_try_and_is_counted_once() -> None:
    counted = Counted()
    counted.move(State.SUBMITTING)
    for state, after in ((State.WAITING, 1), (State.ABSENT, 10), (State.SUBMITTING, 5), (State.WAITING, 1)):
        counted.move(state, after)
    counted.move(State.GRANTED, 3)
    counted.move(State.BOUND, 1)
    assert counted.value("placeholder_phase_duration_seconds_sum", phase="placed") == 21
    assert counted.value("placeholder_phase_duration_seconds_count", phase="placed") == 1


def place(counted: Counted) -> None:
    for state in (State.SUBMITTING, State.WAITING, State.GRANTED, State.BOUND):
        counted.move(state, 1)


def test_the_whole_way_of_a_pod_that_was_there_at_the_start_is_not_known() -> None:
    counted = Counted()
    counted.move(State.UNSURE)
    counted.move(State.ABSENT, 5)
    place(counted)
    assert counted.value("placeholder_phase_duration_seconds_count", phase="bind") == 1
    assert counted.value("placeholder_phase_duration_seconds_count", phase="placed") == 0


def test_a_pod_that_is_placed_again_was_placed_first_only_once() -> None:
    counted = Counted()
    place(counted)
    counted.move(State.LOST, 10, kind=EndKind.PREEMPTED)
    counted.move(State.ABSENT, 1)
    place(counted)
    assert counted.value("placeholder_phase_duration_seconds_count", phase="bind") == 2
    assert counted.value("placeholder_phase_duration_seconds_count", phase="placed") == 1


def test_the_end_of_pods_after_their_job_is_timed_also_where_the_job_is_ended_after_them() -> None:
    counted = Counted()
    counted.move(State.LOST, kind=EndKind.PREEMPTED)
    counted.move(State.RELEASING, 7)
    counted.move(State.GONE, 2)
    assert counted.value("placeholder_phase_duration_seconds_sum", phase="gone") == 7
    assert counted.value("placeholder_phase_duration_seconds_sum", phase="release") == 2


def test_an_end_of_a_job_that_is_taken_back_is_not_timed() -> None:
    counted = Counted()
    counted.move(State.RELEASING)
    counted.move(State.UNSURE, 2)
    counted.move(State.GONE, 2)
    assert counted.value("placeholder_phase_duration_seconds_count", phase="release") == 0


class CountedGang(Counted):
    """The same for a gang of two members."""

    def __init__(self) -> None:
        super().__init__()
        refs = [MemberRef(f"u{number}", "ns", f"p{number}") for number in range(2)]
        self.now = Placeholder("gang-1", members=tuple(map(Member, refs)))

    def complete(self, *, nodes: tuple[str, ...] = ("", "")) -> dict[str, Any]:
        members = tuple(replace(one, node=node) for one, node in zip(self.now.members, nodes, strict=True))
        return {"request": JobRequest("g", members=2, cpus=1, memory_mb=1), "members": members}


def test_a_gang_is_timed_from_its_last_pod_to_its_last_binding() -> None:
    counted = CountedGang()
    counted.move(State.ABSENT, 100)
    counted.move(State.ABSENT, 10, **counted.complete())
    counted.move(State.SUBMITTING, 1)
    counted.move(State.WAITING, 2)
    counted.move(State.GRANTED, 30)
    counted.move(State.BOUND, 4, **counted.complete(nodes=("n1", "")))
    assert counted.value("gang_wait_duration_seconds_count") == 0
    counted.move(State.BOUND, 1, **counted.complete(nodes=("n1", "n2")))
    assert (counted.value("gang_wait_duration_seconds_count"), counted.value("gang_wait_duration_seconds_sum")) == (
        1,
        38,
    )
    counted.move(State.BOUND, 1)
    assert counted.value("gang_wait_duration_seconds_count") == 1


def test_a_gang_that_lost_a_pod_before_its_bindings_is_timed_from_its_successor() -> None:
    counted = CountedGang()
    counted.move(State.ABSENT, 0, **counted.complete())
    counted.move(State.WAITING, 50)
    counted.move(State.RELEASING, 5, request=None)
    counted.move(State.ABSENT, 5)
    counted.move(State.ABSENT, 100, **counted.complete())
    counted.move(State.GRANTED, 3)
    counted.move(State.BOUND, 1, **counted.complete(nodes=("n1", "n2")))
    assert counted.value("gang_wait_duration_seconds_sum") == 4


def test_a_gang_that_a_start_finds_with_its_job_and_a_single_pod_are_not_timed() -> None:
    gang = CountedGang()
    gang.move(State.UNSURE)
    gang.move(State.WAITING, 5)
    gang.move(State.WAITING, 1, **gang.complete())
    gang.move(State.GRANTED, 1)
    gang.move(State.BOUND, 1, **gang.complete(nodes=("n1", "n2")))
    single = Counted()
    single.move(State.ABSENT, 0, request=JobRequest("p", members=1, cpus=1, memory_mb=1))
    place(single)
    assert gang.value("gang_wait_duration_seconds_count") == single.value("gang_wait_duration_seconds_count") == 0


def test_a_gang_that_is_forgotten_is_timed_no_more() -> None:
    counted = CountedGang()
    counted.move(State.ABSENT, 0, **counted.complete())
    followed = counted.metrics.followed
    counted.metrics.forgotten("gang-1")
    assert (followed, counted.metrics.followed) == (2, 0)


def test_requests_to_both_sides_are_counted_by_endpoint_and_code() -> None:
    counted = Counted()
    metrics = counted.metrics
    metrics.slurm_answered("GET", "/slurm/v0.0.43/job/4711", 200)
    metrics.slurm_answered("POST", "/slurm/v0.0.43/job/submit", 0)
    metrics.kube_answered("POST", "/api/v1/namespaces/ns/pods/web/binding", 0.02, 409)
    assert counted.value("slurm_http_requests_total", method="GET", endpoint="job/{id}", code="200") == 1
    assert counted.value("slurm_http_requests_total", endpoint="job/submit", code="none") == 1
    assert counted.value("kube_request_duration_seconds_count", method="POST", endpoint="pods/binding", code="409") == 1


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/slurm/v0.0.43/jobs/state/", "jobs/state"),
        ("/slurm/v0.0.43/jobs/", "jobs"),
        ("/slurm/v0.0.45/job/allocate", "job/allocate"),
        ("/slurm/v0.0.43/node/gpu%2B1", "node/{id}"),
        ("/slurm/v0.0.43/ping", "ping"),
        ("/slurmdb/v0.0.43/associations/", "associations"),
        ("/whatever", "other"),
        ("/", "other"),
    ],
)
def test_a_path_of_slurm_is_an_endpoint_without_its_names(path: str, endpoint: str) -> None:
    assert slurm_endpoint(path) == endpoint


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces/kube-system", "namespaces"),
        ("/api/v1/namespaces/ns/pods/web", "pods"),
        ("/api/v1/namespaces/ns/pods/web/status", "pods/status"),
        ("/api/v1/nodes/n1/status", "nodes/status"),
        ("/apis/coordination.k8s.io/v1/namespaces/ns/leases/slurm-extender", "leases"),
        ("/apis/events.k8s.io/v1/namespaces/ns/events", "events"),
        ("/apis/example.org/v1/namespaces/ns/gizmos/one", "other"),
        ("/", "other"),
    ],
)
def test_a_path_of_kubernetes_is_an_endpoint_without_its_names(path: str, endpoint: str) -> None:
    assert kube_endpoint(path) == endpoint


def test_what_is_described_is_what_is_shown() -> None:
    counted = Counted()
    counted.metrics.read_from(Sources(last_poll=lambda: 0.0))
    counted.metrics.answers()
    shown = {family.name for family in counted.metrics.registry.collect() if family.name.startswith(PREFIX)}
    described = {f"{PREFIX}_{one.name}".removesuffix("_total") for one in counted.metrics.described}
    assert described == shown


def test_moves_duplicate_jobs_and_returned_grants_are_counted() -> None:
    counted = Counted()
    counted.move(State.SUBMITTING)
    counted.move(State.WAITING, duplicate_jobs=frozenset({7, 8}))
    counted.move(State.WAITING, duplicate_jobs=frozenset({8}), refused_nodes=frozenset({"n1"}))
    assert counted.value("placeholder_transitions_total", **{"from": "SUBMITTING", "to": "WAITING"}) == 1
    assert counted.value("duplicate_jobs_total", result="found") == 2
    assert counted.value("duplicate_jobs_total", result="ended") == 1
    assert counted.value("allocations_released_total") == 1


def test_placeholders_are_shown_by_state_with_zeroes() -> None:
    counted = Counted()
    counted.metrics.read_from(Sources(lambda: [in_state(State.WAITING, "a"), in_state(State.WAITING, "b")]))
    assert counted.value("placeholders", state="WAITING") == 2
    assert counted.value("placeholders", state="BOUND") == 0
    text = counted.metrics.render().decode()
    assert text.count("slurm_extender_placeholders{") == len(State)


def test_the_time_of_the_last_poll_is_absent_before_the_first_and_stays() -> None:
    counted = Counted()
    assert "last_poll" not in counted.metrics.render().decode()
    polled = counted.clock.time
    counted.metrics.read_from(Sources(last_poll=lambda: polled))
    wall = counted.clock.wall()
    counted.clock.time += 42
    assert counted.value("last_poll_timestamp_seconds") == wall


def test_the_last_call_of_kube_scheduler_is_shown_by_who_answers_and_counted_from_when_it_could() -> None:
    counted = Counted()
    counted.metrics.filtered("Wait", 0.001)
    assert "last_filter" not in counted.metrics.render().decode()
    counted.metrics.answers()
    answers = counted.clock.wall()
    counted.clock.time += 60
    assert counted.value("last_filter_timestamp_seconds") == answers
    counted.metrics.filtered("Wait", 0.001)
    counted.clock.time += 5
    assert counted.value("last_filter_timestamp_seconds") == answers + 60


def test_the_mass_deletion_guard_and_readiness_are_shown() -> None:
    counted = Counted()
    assert (counted.value("mass_deletion_guard_active"), counted.value("ready")) == (0, 0)
    counted.metrics.read_from(Sources(mass_deletion_guard_active=lambda: True, ready=lambda: True))
    assert (counted.value("mass_deletion_guard_active"), counted.value("ready")) == (1, 1)


def test_requests_polls_hooks_and_answers_are_counted() -> None:
    counted = Counted()
    metrics = counted.metrics
    metrics.slurm_requested("submit", 0.01, "ok")
    metrics.slurm_requested("submit", 0.01, "TransportError")
    metrics.polled(0.2, True)
    metrics.polled(30, False)
    metrics.hooked("teardown", 202)
    metrics.filtered("Place", 0.001)
    metrics.bound(False, 0.01)
    assert counted.value("slurm_request_duration_seconds_count", request="submit", result="TransportError") == 1
    assert counted.value("poll_duration_seconds_sum", result="failed") == 30
    assert counted.value("hook_requests_total", hook="teardown", code="202") == 1
    assert counted.value("filter_duration_seconds_count", result="place") == 1
    assert counted.value("bind_duration_seconds_count", result="refused") == 1


def test_further_gauges_and_counters_can_be_given() -> None:
    counted = Counted()
    known = Described("known", Sort.GAUGE, "Objects known.", ("kind",))
    relists = Described("relists_total", Sort.COUNTER, "Lists made again.", ("kind",))
    further: Mapping[Described, Values] = {known: lambda: {"pods": 7.0}, relists: lambda: {"expired": 3.0}}
    counted.metrics.read_from(Sources(further=further))
    assert counted.value("known", kind="pods") == 7
    assert counted.value("relists_total", kind="expired") == 3


def test_no_label_names_a_pod() -> None:
    counted = Counted()
    counted.move(State.SUBMITTING)
    counted.move(State.WAITING)
    counted.metrics.read_from(Sources(lambda: [counted.now]))
    text = counted.metrics.render().decode()
    assert "pod-with-a-name" not in text
    assert "4711" not in text


def test_every_metric_has_the_extenders_prefix_and_says_what_it_is() -> None:
    counted = Counted()
    counted.metrics.polled(1, True)
    families = list(text_string_to_metric_families(counted.metrics.render().decode()))
    ours = [one for one in families if not one.name.startswith(("process_", "python_"))]
    assert len(ours) > 10
    assert all(one.name.startswith("slurm_extender_") and one.documentation for one in ours)
