"""The site's policy speaks of the right Pods, and no Pod gets more by asking than its rule allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.jobs.job import Exclusive, JobRequest, Mode, RunAs
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.selectors import Selector, fits
from extender.domain.policy.site import RESTRICTED_KEYS, TranslationPolicy
from extender.domain.policy.tenancy import Allowed, ClassValues, JobOwner, PodMatch, PodPolicy, Range, TenancyRule
from extender.domain.translation import annotation_table as table
from extender.domain.translation.allowance import too_many
from extender.domain.translation.translate import Translated, TranslationRefused, translate
from extender.domain.views import PodView, Requirement
from tests.builders.defaults import job_defaults
from tests.builders.pod_views import a_pod

OWN = "slurm-extender.io/"
USERS = {"alice": RunAs(2001, 3001), "bob": RunAs(2002, 3002), "root": RunAs(0, 0), "slurm": RunAs(64, 64)}
SITE = TranslationPolicy(users=USERS, groups={"staff": 50, "wheel": 10}, caller=RunAs(64, 64))


def with_rules(*rules: TenancyRule, site: TranslationPolicy = SITE, **policy: Any) -> TranslationPolicy:
    return replace(site, pods=PodPolicy(rules, **policy))


def allowing(site: TranslationPolicy = SITE, defaults: JobDefaults | None = None, **allowed: Any) -> TranslationPolicy:
    return with_rules(TenancyRule("only", defaults=defaults or job_defaults(), allowed=Allowed(**allowed)), site=site)


def requesting(**settings: str) -> PodView:
    return a_pod(annotations={OWN + name.replace("_", "-"): value for name, value in settings.items()})


def job(pod: PodView, policy: TranslationPolicy, labels: dict[str, str] | None = None) -> JobRequest:
    said = translate([pod], {}, policy, 1_000_500.0, labels or {})
    assert isinstance(said, Translated), said
    return said.request


def faults(pod: PodView, policy: TranslationPolicy) -> tuple[str, ...]:
    said = translate([pod], {}, policy, 1_000_500.0)
    assert isinstance(said, TranslationRefused), said
    return said.faults


@pytest.mark.parametrize(("most", "members", "fault"), [(2, 2, ""), (2, 3, "it allows at most 2"), (None, 999, "")])
def test_a_rule_bounds_the_members_of_a_gang(most: int | None, members: int, fault: str) -> None:
    said = too_many(TenancyRule("interns", allowed=Allowed(largest_gang=most)), "gang ring", members)
    assert said == (f'gang ring with 3 Pods is not allowed by rule "interns" of the policy; {fault}' if fault else "")


def test_a_rule_may_allow_no_gang_and_no_rule_bounds_none() -> None:
    said = too_many(TenancyRule("interns", allowed=Allowed(largest_gang=1)), "gang ring", 2)
    assert said.endswith("it allows no gang")
    assert too_many(None, "gang ring", 2) == ""


# What a rule allows; what a Pod may ask then; what it may not, and how the refusal ends.
BOUNDS: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, str], str]] = {
    "account": ({"account": ("phys*", "")}, {"account": "physics"}, {"account": "bio"}, "it allows phys*"),
    "partition": ({"partition": ("a", "b")}, {"partition": "b,a"}, {"partition": "a,gpu"}, "it allows a, b"),
    "qos": ({"qos": ("low",)}, {"qos": "low"}, {"qos": "high"}, "it allows low"),
    "reservation": ({"reservation": ()}, {}, {"reservation": "r"}, "it allows none"),
    "user": ({"user_id": ("alice",)}, {"user_id": "alice"}, {"user_id": "bob"}, "it allows alice"),
    "group": (
        {"user_id": ("alice",), "group_id": ("staff",)},
        {"user_id": "alice", "group_id": "50"},
        {"user_id": "alice", "group_id": "wheel"},
        "it allows staff",
    ),
    "priority": ({"priority": Range(0, 100)}, {"priority": "100"}, {"priority": "101"}, "at least 0 and at most 100"),
    "nice": ({"nice": Range(at_least=-5)}, {"nice": "-5"}, {"nice": "-6"}, "it allows at least -5"),
    "time limit": ({"time_limit": Range(1, 60)}, {"time-limit": "60"}, {"time-limit": "61"}, "at most 60"),
    "exclusive": ({"exclusive": ("user", "false")}, {"exclusive": "user"}, {"exclusive": "true"}, "user, false"),
    "mode": ({"mode": (Mode.BATCH, Mode.AUTO)}, {"mode": "batch"}, {"mode": "external"}, "it allows batch, auto"),
}


@pytest.mark.parametrize("what", ["partition", "qos", "reservation"])
def test_each_name_of_a_list_has_to_be_allowed(what: str) -> None:
    allowed: dict[str, Any] = {what: ("team-*",)}
    policy = allowing(**allowed)
    job(requesting(**{what: "team-a,team-b"}), policy)
    (fault,) = faults(requesting(**{what: "team-a,high"}), policy)
    assert '"team-a,high" is not allowed' in fault


@pytest.mark.parametrize("what", BOUNDS)
def test_a_pod_that_requests_more_is_refused_with_the_rule_the_value_and_what_is_allowed(what: str) -> None:
    allowed, within, beyond, ends = BOUNDS[what]
    least = {"partition": {"partition": "a"}, "qos": {"qos": "low"}}.get(what, {})
    policy = allowing(**allowed)
    job(requesting(**least), policy)
    job(requesting(**least | within), policy)
    (fault,) = faults(requesting(**least | beyond), policy)
    assert 'rule "only" of the policy' in fault
    assert list(beyond.values())[-1] in fault
    assert fault.endswith(ends)


def test_every_fault_of_a_pod_is_said_at_once() -> None:
    policy = allowing(partition=("a",), qos=("low",), time_limit=Range(at_most=5))
    assert len(faults(requesting(partition="b", qos="high", timeout="9", user_id="bob"), policy)) == 4


@pytest.mark.parametrize("setting", ["account", "partition", "qos", "exclusive", "mode"])
def test_an_unnamed_value_is_slurms_choice_and_is_held_to_the_rule(setting: str) -> None:
    one: dict[str, Any] = {setting: ("one",)}
    (fault,) = faults(a_pod(), allowing(**one))
    assert fault.startswith(f"{setting} is not set")
    leaving: dict[str, Any] = {setting: ("", "false", "auto")}
    job(a_pod(), allowing(**leaving))
    default: Any = {"exclusive": Exclusive.USER, "mode": Mode.BATCH}.get(setting, "the-sites")
    job(a_pod(), allowing(defaults=job_defaults(**{setting: default}), **one))


def test_a_default_needs_no_permission_also_when_it_is_requested() -> None:
    policy = allowing(defaults=job_defaults(partition="site", priority=9), partition=(), priority=Range(at_most=1))
    assert job(requesting(partition="site", priority="9"), policy).partition == "site"


def test_without_a_policy_no_pod_runs_as_another_or_raises_priority() -> None:
    for requested in ({"user_id": "bob"}, {"user_id": "0", "group_id": "0"}, {"priority": "1"}, {"nice": "-1"}):
        assert "is not allowed" in faults(requesting(**requested), SITE)[0]


@pytest.mark.parametrize("settings", [{"user_id": "bob"}, {"priority": "1"}, {"nice": "-1"}])
def test_a_rule_that_says_nothing_of_it_lets_no_pod_run_as_another_or_raise_priority(settings: dict[str, str]) -> None:
    (fault,) = faults(requesting(**settings), allowing(partition=("*", "")))
    assert 'rule "only" of the policy does not list it' in fault


def test_a_rule_goes_before_the_permissions_of_the_configuration() -> None:
    site = replace(SITE, allowed=RESTRICTED_KEYS)
    assert job(requesting(user_id="bob"), site).run_as == RunAs(2002, 3002)
    assert faults(requesting(user_id="bob"), allowing(site, user_id=("alice",)))


def test_a_number_does_not_bring_a_group_that_the_rule_does_not_give() -> None:
    policy = allowing(user_id=("alice",))
    (fault,) = faults(requesting(user_id="2001"), policy)  # which would bring group 2001
    assert "brings group 2001" in fault
    assert faults(requesting(user_id="alice", group_id="staff"), policy)
    assert job(requesting(user_id="2001", group_id="3001"), policy).run_as == RunAs(2001, 3001)


def test_any_user_may_be_allowed() -> None:
    assert job(requesting(user_id="7", group_id="8"), allowing(user_id=("*",), group_id=("*",))).run_as == RunAs(7, 8)


def test_without_a_time_limit_the_longest_that_is_allowed_is_requested() -> None:
    policy = allowing(time_limit=Range(at_most=60))
    assert job(a_pod(), policy).time_limit_minutes == 60
    assert job(a_pod(active_deadline_s=60), policy).time_limit_minutes == 3  # its own, and the room around it
    within = job(a_pod(active_deadline_s=59 * 60), policy)  # with room it would be 61
    assert (within.time_limit_minutes, within.time_limit_least, within.time_limit_by_site) == (60, 59, True)
    (fault,) = faults(a_pod(active_deadline_s=3601), policy)
    assert "activeDeadlineSeconds, which needs a time limit of 61 min, is not allowed by rule" in fault


def test_the_first_rule_that_matches_is_the_only_one() -> None:
    policy = with_rules(
        TenancyRule("team", PodMatch(namespaces=("te*",)), job_defaults(partition="first")),
        TenancyRule("rest", PodMatch(), job_defaults(partition="second", qos="low")),
    )
    assert (job(a_pod(), policy).partition, job(a_pod(), policy).qos) == ("first", "")
    assert job(a_pod(namespace="other"), policy).partition == "second"


# A match, and whether it speaks of Pod team/web of ServiceAccount `bot`, labelled app=web, in a Namespace kind=lab.
MATCHES = [
    (PodMatch(), True),
    (PodMatch(namespaces=("team",)), True),
    (PodMatch(namespaces=("eam", "tea")), False),
    (PodMatch(namespaces=()), False),
    (PodMatch(service_accounts=("b*",)), True),
    (PodMatch(service_accounts=("default",)), False),
    (PodMatch(pod_selector=Selector({"app": "web"})), True),
    (PodMatch(pod_selector=Selector({"app": "db"})), False),
    (PodMatch(namespace_selector=Selector({"kind": "lab"})), True),
    (PodMatch(namespace_selector=Selector({"kind": "lab", "more": ""})), False),
    (PodMatch(namespaces=("team",), service_accounts=("x",)), False),
    *(
        (PodMatch(namespace_selector=Selector(match_expressions=(Requirement(key, operator, values),))), holds)
        for key, operator, values, holds in (
            ("kind", "In", ("lab", "x"), True),
            ("kind", "NotIn", ("lab",), False),
            ("none", "NotIn", ("lab",), True),
            ("none", "In", ("lab",), False),
            ("kind", "Exists", (), True),
            ("none", "Exists", (), False),
            ("kind", "DoesNotExist", (), False),
            ("none", "DoesNotExist", (), True),
        )
    ),
]


@pytest.mark.parametrize(("match", "holds"), MATCHES)
def test_a_rule_speaks_of_the_pods_that_it_names(match: PodMatch, holds: bool) -> None:
    pod = a_pod(labels={"app": "web"}, service_account="bot")
    policy = with_rules(TenancyRule("one", match, job_defaults(qos="low")))
    assert bool(job(pod, policy, {"kind": "lab"}).qos) is holds


def test_jobs_belong_to_the_owner_of_their_namespace_or_service_account() -> None:
    owners = (
        JobOwner(PodMatch(service_accounts=("trainer",)), "bob", account="bobs"),
        JobOwner(PodMatch(namespaces=("team",)), "alice", "staff", "{namespace}-{serviceAccount}"),
    )
    defaults = job_defaults(user_id="bob", group_id="wheel", account="rest")
    policy = with_rules(TenancyRule("all", defaults=defaults), owners=owners)
    alices, bobs = job(a_pod(), policy), job(a_pod(service_account="trainer"), policy)
    assert (alices.run_as, alices.account) == (RunAs(2001, 50), "team-default")
    assert (bobs.run_as, bobs.account) == (RunAs(2002, 3002), "bobs")
    other = job(a_pod(namespace="other"), policy)
    assert (other.run_as, other.account) == (RunAs(2002, 10), "rest")


def test_a_pod_of_an_owner_runs_as_no_other_user() -> None:
    policy = with_rules(owners=(JobOwner(PodMatch(), "alice"),))
    assert faults(requesting(user_id="bob"), policy)
    assert faults(requesting(user_id="0"), policy)
    assert job(requesting(user_id="alice"), policy).run_as == RunAs(2001, 3001)


@pytest.mark.parametrize("namespace", ["0", "1000", "root", "slurm", "nobody-known"])
def test_a_namespace_makes_no_user_an_administrator_by_its_name(namespace: str) -> None:
    policy = with_rules(owners=(JobOwner(PodMatch(), "{namespace}"),))
    assert any("the policy makes" in fault for fault in faults(a_pod(namespace=namespace), policy))
    assert job(a_pod(namespace="alice"), policy).run_as == RunAs(2001, 3001)


def test_a_priority_class_stands_for_priority_nice_or_qos() -> None:
    classes = {"high": ClassValues(priority=9), "low": ClassValues(nice=50, qos="idle")}
    policy = with_rules(TenancyRule("all", defaults=job_defaults(qos="normal", nice=1)), classes=classes)
    high, low = job(a_pod(priority_class="high"), policy), job(a_pod(priority_class="low"), policy)
    assert (high.priority, high.nice, high.qos) == (9, 1, "normal")
    assert (low.priority, low.nice, low.qos) == (None, 50, "idle")
    assert job(a_pod(priority_class="unknown"), policy).qos == "normal"
    assert job(a_pod(priority_class="low", annotations={OWN + "qos": "own"}), policy).qos == "own"


def test_what_a_priority_class_stands_for_is_held_to_a_rule_that_speaks_of_it() -> None:
    policy = with_rules(
        TenancyRule("all", allowed=Allowed(qos=("normal", ""), priority=Range(at_most=5))),
        classes={"high": ClassValues(priority=9, qos="urgent")},
    )
    said = faults(a_pod(priority_class="high"), policy)
    assert [fault.partition(" is not allowed")[0] for fault in said] == [
        'qos urgent of priorityClassName: "high"',
        'priority 9 of priorityClassName: "high"',
    ]


@given(st.text("ab*", max_size=6), st.text("ab", max_size=6))
def test_a_pattern_fits_what_its_stars_can_stand_for(pattern: str, name: str) -> None:
    def meant(pattern: str, name: str) -> bool:
        if not pattern:
            return not name
        if pattern[0] == "*":
            return any(meant(pattern[1:], name[cut:]) for cut in range(len(name) + 1))
        return bool(name) and name[0] == pattern[0] and meant(pattern[1:], name[1:])

    assert fits(name, [pattern]) is meant(pattern, name)


NAMES = st.sampled_from(["", "a", "b", "ab", "c"])
PEOPLE = st.sampled_from(["alice", "bob", "0", "2001", "2002", "root"])
GROUPS = st.sampled_from(["staff", "wheel", "50", "3001", "0"])


def maybe(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | one


def some(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return maybe(st.lists(one, max_size=3).map(tuple))


RANGES = st.builds(Range, maybe(st.integers(-9, 9)), maybe(st.integers(-9, 9)))
ALLOWED = st.builds(
    Allowed,
    account=some(NAMES),
    partition=some(NAMES),
    qos=some(NAMES),
    reservation=some(NAMES),
    user_id=some(PEOPLE),
    group_id=some(GROUPS),
    priority=maybe(RANGES),
    nice=maybe(RANGES),
    time_limit=maybe(RANGES),
    exclusive=some(st.sampled_from(["none", "ok", "user", "mcs", "topo", "false"])),
    mode=some(st.sampled_from(list(Mode))),
)
DEFAULTS = st.builds(
    job_defaults,
    account=NAMES,
    qos=NAMES,
    priority=maybe(st.integers(0, 9)),
    nice=maybe(st.integers(-9, 9)),
    time_limit=maybe(st.integers(1, 9)),
    user_id=st.just("") | PEOPLE,
)
REQUESTED = st.fixed_dictionaries(
    {},
    optional={
        "account": st.sampled_from(["a", "b", "c"]),
        "partition": st.sampled_from(["a", "b", "a,b", "c"]),
        "qos": st.sampled_from(["a", "b"]),
        "reservation": st.sampled_from(["a", "b,c"]),
        "user_id": PEOPLE,
        "group_id": GROUPS,
        "priority": st.integers(0, 12).map(str),
        "nice": st.integers(-12, 12).map(str),
        "time-limit": st.integers(1, 12).map(str),
        "exclusive": st.sampled_from(["none", "ok", "user", "mcs", "topo", "true", "false"]),
        "mode": st.sampled_from(list(Mode)),
    },
)


@given(ALLOWED, DEFAULTS, REQUESTED)
def test_no_job_has_what_neither_its_rule_allows_nor_the_site_gives_by_default(
    allowed: Allowed, defaults: JobDefaults, requested: dict[str, str]
) -> None:
    policy = with_rules(TenancyRule("one", defaults=defaults, allowed=allowed))
    said = translate([requesting(**requested)], {}, policy, 0.0)
    if isinstance(said, TranslationRefused):
        assert all(fault for fault in said.faults)
        return
    got = said.request
    for names, value, default_value in (
        (allowed.account, got.account, defaults.get(table.ACCOUNT)),
        (allowed.qos, got.qos, defaults.get(table.QOS)),
        (allowed.partition, got.partition, ""),
    ):
        assert names is None or (value == default_value != "") or all(one in names for one in value.split(","))
    assert allowed.reservation is None or set(filter(None, got.reservation.split(","))) <= set(allowed.reservation)
    assert allowed.mode is None or got.mode in allowed.mode
    assert allowed.exclusive is None or str(got.exclusive or "false") in allowed.exclusive
    assert got.nice == defaults.get(table.NICE) or (
        allowed.nice.holds(got.nice or 0) if allowed.nice else (got.nice or 0) >= min(0, defaults.get(table.NICE) or 0)
    )
    assert got.priority == defaults.get(table.PRIORITY) or (
        allowed.priority is not None and allowed.priority.holds(got.priority or 0)
    )
    bounds, limit = allowed.time_limit, got.time_limit_minutes
    assert (
        bounds is None or limit == defaults.get(table.TIME_LIMIT) or limit == bounds.at_most or bounds.holds(limit or 0)
    )
    own = SITE.user(defaults.get(table.USER_ID) or "") or SITE.caller
    person = got.run_as or SITE.caller
    assert person is not None
    users = [SITE.user(name) for name in allowed.user_id or ()]
    groups = {SITE.group(name) for name in allowed.group_id or ()}
    known = [one for one in (*users, own) if one is not None]
    assert person.uid in {one.uid for one in known}
    assert person.gid in groups | {one.gid for one in known if one.uid == person.uid}
