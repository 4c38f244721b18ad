"""Settings that need a permission of the site, the user and group of the job, and the order of defaults."""

from dataclasses import replace

import pytest

from extender.domain.jobs.job import Exclusive, RunAs
from extender.domain.policy.site import RESTRICTED_KEYS, TranslationPolicy
from tests.builders.defaults import job_defaults
from tests.builders.pod_views import a_pod
from tests.builders.translation import BRIDGE, FREE, OWN, SUNK, faults, own, request, translated

NAMED = replace(FREE, users={"alice": RunAs(2001, 3001), "bob": RunAs(2002, 3002)}, groups={"staff": 50})


@pytest.mark.parametrize(
    ("annotation", "key"),
    [("user-id", "user-id"), ("group-id", "group-id"), ("priority", "priority"), ("nice", "priority")],
)
def test_a_restricted_setting_needs_the_sites_permission(annotation: str, key: str) -> None:
    pod = a_pod(annotations={OWN + annotation: "-5" if annotation == "nice" else "5"})
    site = job_defaults(user_id="7") if annotation == "group-id" else job_defaults()
    (sentence,) = faults(pod, policy=TranslationPolicy(defaults=site))
    assert sentence.startswith(f"{OWN}{annotation}: ")
    assert f"permission for {key}" in sentence
    translated(pod, policy=TranslationPolicy(defaults=site, allowed=frozenset({key})))


def test_requesting_what_the_site_gives_anyway_needs_no_permission() -> None:
    site = TranslationPolicy(defaults=job_defaults(user_id="0", nice=-10, priority=3))
    requested = own(user_id="0", group_id="0", nice="-10", priority="3")
    assert request(a_pod(annotations=requested), policy=site).run_as == RunAs(0, 0)


@pytest.mark.parametrize("nice", [0, 100])
def test_being_nice_needs_no_permission(nice: int) -> None:
    policy = TranslationPolicy(defaults=job_defaults(nice=50))
    assert request(a_pod(annotations=own(nice=str(nice))), policy=policy).nice == nice


@pytest.mark.parametrize(
    ("allowed", "said"),
    [(frozenset[str](), "this site allows none"), (frozenset({"group-id"}), "this site allows group-id")],
)
def test_a_refusal_says_what_the_site_does_permit(allowed: frozenset[str], said: str) -> None:
    (sentence,) = faults(a_pod(annotations=own(user_id="5")), policy=TranslationPolicy(allowed=allowed))
    assert sentence.endswith(f"{said}")


@pytest.mark.parametrize(
    ("user", "group", "expected"),
    [
        # SUNK's rule: a missing group-id becomes the user-id.
        ("7", "", RunAs(7, 7)),
        ("7", "8", RunAs(7, 8)),
        ("7", "staff", RunAs(7, 50)),
        ("alice", "", RunAs(2001, 3001)),
        ("alice", "8", RunAs(2001, 8)),
        ("alice", "staff", RunAs(2001, 50)),
    ],
)
@pytest.mark.parametrize("prefix", [OWN, SUNK, BRIDGE])
def test_a_missing_group_is_the_number_of_the_user_or_the_primary_group_of_its_name(
    prefix: str, user: str, group: str, expected: RunAs
) -> None:
    pod = a_pod(annotations={prefix + "user-id": user, prefix + "group-id": group})
    assert request(pod, policy=NAMED).run_as == expected
    site = replace(NAMED, allowed=frozenset(), defaults=job_defaults(user_id=user, group_id=group))
    assert request(a_pod(), policy=site).run_as == expected


@pytest.mark.parametrize("allowed", [RESTRICTED_KEYS, frozenset[str]()], ids=["permitted", "not permitted"])
def test_names_that_the_site_does_not_know_are_refused_beside_every_other_fault(allowed: frozenset[str]) -> None:
    pod = a_pod("", annotations={SUNK + "user-id": "carol", BRIDGE + "group-id": "wheel"})
    said = faults(pod, policy=replace(NAMED, allowed=allowed))
    numbers = "it must be a number from 0 to 4294967293"
    assert f'{SUNK}user-id: "carol" is not a known user; {numbers}, or one of the names alice, bob' in said
    assert f'{BRIDGE}group-id: "wheel" is not a known group; {numbers}, or one of the names staff' in said
    assert any("no cpu" in sentence for sentence in said)
    assert len(said) == (3 if allowed else 5)


def test_a_site_without_names_says_so_and_one_with_many_names_a_few() -> None:
    (sentence,) = faults(a_pod(annotations=own(user_id="carol")))
    assert sentence.endswith("it must be a number from 0 to 4294967293; no name is known")
    many = replace(FREE, users={f"user{n:03}": RunAs(n, n) for n in range(500)})
    (sentence,) = faults(a_pod(annotations=own(user_id="carol")), policy=many)
    assert "user000, user001" in sentence
    assert len(sentence) < 250


def test_a_name_in_the_sites_defaults_that_it_does_not_know_is_called_the_sites() -> None:
    site = replace(NAMED, defaults=job_defaults(user_id="carol", group_id="wheel"))
    assert [sentence.split(" is not ")[0] for sentence in faults(a_pod(), policy=site)] == [
        'the site\'s userId: "carol"',
        'the site\'s groupId: "wheel"',
    ]


@pytest.mark.parametrize("user", ["1000", "worker"])
def test_naming_the_sites_own_user_brings_no_other_group(user: str) -> None:
    site = TranslationPolicy(
        users={"worker": RunAs(1000, 0)}, groups={"staff": 50}, defaults=job_defaults(user_id="1000", group_id="staff")
    )
    assert request(a_pod(annotations=own(user_id=user)), policy=site).run_as == RunAs(1000, 50)
    named = replace(site, defaults=job_defaults(user_id="worker"))
    assert request(a_pod(annotations=own(user_id=user)), policy=named).run_as == RunAs(1000, 0)
    (sentence,) = faults(a_pod(annotations=own(user_id=user, group_id="1000")), policy=site)
    assert "permission for group-id" in sentence


@pytest.mark.parametrize(("user", "group"), [("0", ""), ("0", "0"), ("root", "")])
def test_a_request_to_run_as_the_tokens_owner_needs_nothing(user: str, group: str) -> None:
    policy = replace(FREE, users={"root": RunAs(0, 0)}, caller=RunAs(0, 0))
    pod = a_pod(annotations=own(user_id=user, group_id=group))
    assert request(pod, policy=policy).run_as is None
    assert request(pod, policy=replace(policy, caller=RunAs(64030, 64030))).run_as == RunAs(0, 0)


def test_the_tokens_owner_with_another_group_is_another_user() -> None:
    pod = a_pod(annotations=own(user_id="0", group_id="50"))
    assert request(pod, policy=replace(FREE, caller=RunAs(0, 0))).run_as == RunAs(0, 50)


def test_a_user_of_the_pods_own_does_not_keep_the_sites_group() -> None:
    policy = replace(FREE, defaults=job_defaults(user_id="0", group_id="0"))
    assert request(a_pod(annotations=own(user_id="7")), policy=policy).run_as == RunAs(7, 7)


def test_a_group_without_a_user_is_refused() -> None:
    (sentence,) = faults(a_pod(annotations=own(group_id="8")))
    assert "user-id" in sentence


def test_nothing_said_runs_as_the_tokens_user() -> None:
    assert request(a_pod()).run_as is None


def test_defaults_of_the_namespace_go_before_those_of_the_site_and_annotations_before_both() -> None:
    policy = TranslationPolicy(
        defaults=job_defaults(account="all", qos="low", exclusive=Exclusive.NONE, user_id="1", group_id="1"),
        namespace_defaults={"team": job_defaults(account="team", user_id="2")},
    )
    job = request(a_pod(), policy=policy)
    assert (job.account, job.qos, job.exclusive, job.run_as) == ("team", "low", Exclusive.NONE, RunAs(2, 2))
    assert request(a_pod(annotations=own(account="mine")), policy=policy).account == "mine"
    assert request(a_pod(namespace="other"), policy=policy).account == "all"


def test_a_namespace_without_a_user_of_its_own_keeps_user_and_group_of_the_site() -> None:
    policy = TranslationPolicy(
        defaults=job_defaults(user_id="1", group_id="5"), namespace_defaults={"team": job_defaults(account="team")}
    )
    job = request(a_pod(), policy=policy)
    assert (job.account, job.run_as) == ("team", RunAs(1, 5))


def test_exclusive_false_takes_the_sites_default_back() -> None:
    policy = TranslationPolicy(defaults=job_defaults(exclusive=Exclusive.NONE))
    assert request(a_pod(annotations=own(exclusive="false")), policy=policy).exclusive is None
