"""A dry run judges a gang once: its one job, its faults, or the Pods that are missing."""

from __future__ import annotations

from extender.controllers.dry_run_workloads import DryRead, DryResult, dry_read, outcome_of
from extender.domain.gangs.membership import GangSource, MemberOrder, Membership
from extender.domain.gangs.recognition import GangRefused
from extender.domain.jobs.job import JobRequest
from extender.domain.translation.translate import Translated, TranslationRefused
from extender.domain.views import PodView


def pod(number: int, *, gates: tuple[str, ...] = ()) -> PodView:
    return PodView(f"u{number}", "team", f"p{number}", gates=gates)


def gang(number: int, size: int = 2, source: GangSource = GangSource.JOB) -> Membership:
    return Membership(source, "team", "Job train", ("job",), size, MemberOrder((number,), f"p{number}"))


def request(number: int, cpus: int = 1) -> Translated:
    return Translated(JobRequest(f"team/p{number}", members=1, cpus=cpus, memory_mb=1))


def read(number: int, cpus: int = 1, **pod_fields: tuple[str, ...]) -> DryRead:
    return dry_read(pod(number, **pod_fields), gang(number), request(number, cpus), "")


def test_a_complete_gang_is_one_job_of_the_largest_member() -> None:
    found = outcome_of([read(1, cpus=3), read(0)], ())
    assert (found.result, found.gang) == (DryResult.SUBMITTED, "Job train")
    assert found.request is not None
    assert (found.request.title, found.request.members, found.request.cpus) == ("team/Job train", 2, 3)
    assert any("requests less than the largest" in text for text in found.notices)


def test_an_incomplete_gang_says_what_is_missing() -> None:
    assert outcome_of([read(0)], ()).missing == "1 of 2 Pods of Job train exist."
    held = outcome_of([read(0), read(1, gates=("kueue.x-k8s.io/admission",))], ())
    assert held.missing == "Pod team/p1 of Job train still has the scheduling gate kueue.x-k8s.io/admission."
    assert outcome_of([read(0), read(1, gates=("own",))], ("own",)).result is DryResult.SUBMITTED


def test_faults_of_members_are_named_with_their_pods() -> None:
    faulty = dry_read(pod(1), gang(1), TranslationRefused(("partition: unknown",)), "")
    found = outcome_of([read(0), faulty], ())
    assert (found.result, found.faults) == (DryResult.REFUSED, ("Pod team/p1: partition: unknown",))


def test_a_gang_that_the_rule_does_not_allow_is_refused_pod_by_pod() -> None:
    one = dry_read(pod(0), gang(0), request(0), "too large")
    assert (one.key, outcome_of([one], ()).faults) == ("u0", ("too large",))


def test_a_pod_whose_gang_cannot_be_used_is_refused_with_all_of_its_faults() -> None:
    one = dry_read(pod(0), GangRefused("two gangs"), TranslationRefused(("other",)), "")
    assert outcome_of([one], ()).faults == ("two gangs", "other")


def test_members_of_a_named_gang_are_held_to_one_tenant() -> None:
    named = [dry_read(pod(n), gang(n, source=GangSource.ANNOTATION), request(n), "") for n in range(2)]
    assert named[0].key == named[1].key != "u0"
    refused = dry_read(pod(2), gang(2, source=GangSource.ANNOTATION), TranslationRefused(("x",)), "")
    assert refused.key == "u2"


def test_a_single_pod_is_a_workload_of_its_own() -> None:
    found = outcome_of([dry_read(pod(0), None, request(0), "")], ())
    assert (found.result, found.gang, found.request) == (DryResult.SUBMITTED, "", request(0).request)
