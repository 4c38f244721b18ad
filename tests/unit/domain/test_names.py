"""Without a rule of the policy, a Pod names only what the site lists, and partitions that are open to everybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from extender.domain.cluster import SlurmPartition, SlurmSnapshot
from extender.domain.policy.named import Nameable, restricted_partitions
from extender.domain.policy.site import TranslationPolicy
from extender.domain.policy.tenancy import Allowed, PodPolicy, TenancyRule
from extender.domain.translation.translate import Translated, TranslationRefused, translate
from tests.builders.defaults import job_defaults
from tests.builders.pod_views import a_pod

OWN = "slurm-extender.io/"
BRIDGE = "slurmjob.slinky.slurm.net/"
"""The one prefix whose keys are read from the owner of a Pod as well."""

CLOSED = TranslationPolicy(nameable=Nameable())
RESTRICTED = {"closed": "AllowGroups=bob", "high": "PriorityTier=9 above 1"}
NOW = 1_000_500.0


def faults(
    policy: TranslationPolicy,
    annotations: Mapping[str, str],
    restricted: Mapping[str, str] = RESTRICTED,
    owners: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    result = translate([a_pod(annotations=dict(annotations))], owners or {}, policy, NOW, restricted=restricted)
    return result.faults if isinstance(result, TranslationRefused) else ()


@pytest.mark.parametrize("key", ["account", "qos", "reservation", "mcs-label"])
def test_what_no_list_of_the_site_names_is_refused_with_the_key_of_the_list(key: str) -> None:
    [fault] = faults(CLOSED, {OWN + key: "physics"})
    assert '"physics" is not allowed' in fault
    assert "jobs." in fault


@pytest.mark.parametrize("prefix", ["sunk.coreweave.com/", "slurmjob.slinky.slurm.net/"])
def test_the_keys_of_the_peers_are_held_to_the_lists_as_well(prefix: str) -> None:
    assert faults(CLOSED, {f"{prefix}account": "root"})


def test_what_a_list_names_or_matches_is_allowed() -> None:
    listed = Nameable(("clo*",), ("physics",), ("normal", "short"), ("r*",), ("secret",))
    wishes = {"account": "physics", "qos": "normal,short", "reservation": "r1,r2", "mcs-label": "secret"}
    policy = replace(CLOSED, nameable=listed)
    assert not faults(policy, {OWN + key: text for key, text in wishes.items()} | {OWN + "partition": "closed,open"})
    assert faults(policy, {OWN + "qos": "normal,urgent"})
    assert faults(policy, {OWN + "partition": "closed,high"})


def test_a_partition_that_is_restricted_is_refused_and_any_other_one_is_allowed() -> None:
    assert "AllowGroups=bob" in faults(CLOSED, {OWN + "partition": "open,closed"})[0]
    assert "PriorityTier=9" in faults(CLOSED, {OWN + "partition": "high"})[0]
    assert not faults(CLOSED, {OWN + "partition": "open"})
    assert not faults(CLOSED, {})


@pytest.mark.parametrize(("partition", "reason"), [("closed", "AllowGroups=bob"), ("high", "PriorityTier=9")])
def test_a_partition_that_is_restricted_is_refused_to_the_owner_of_a_pod_as_well(partition: str, reason: str) -> None:
    [fault] = faults(CLOSED, {}, owners={BRIDGE + "partition": partition})
    assert reason in fault
    assert not faults(CLOSED, {}, owners={BRIDGE + "partition": "open"})


@pytest.mark.parametrize("key", ["account", "qos", "reservation"])
def test_an_owner_is_held_to_the_lists_of_the_site_as_well(key: str) -> None:
    wishes = {BRIDGE + key: "physics"}
    assert faults(CLOSED, {}, owners=wishes) == faults(CLOSED, wishes) != ()


@pytest.mark.parametrize("prefix", [OWN, "sunk.coreweave.com/"])
def test_no_other_key_of_an_owner_names_a_partition(prefix: str) -> None:
    result = translate([a_pod()], {f"{prefix}partition": "closed"}, CLOSED, NOW, restricted=RESTRICTED)
    assert isinstance(result, Translated)
    assert not result.request.partition


def test_what_the_site_gives_by_default_may_be_named() -> None:
    policy = replace(CLOSED, defaults=job_defaults(account="physics", partition="closed", qos="normal,long"))
    assert not faults(policy, {OWN + "account": "physics", OWN + "partition": "closed", OWN + "qos": "long"})


def test_a_rule_of_the_policy_decides_instead_of_the_lists() -> None:
    rule = TenancyRule("r", allowed=Allowed(account=("maths", ""), partition=("high", "")))
    policy = replace(CLOSED, nameable=Nameable(accounts=("physics",)), pods=PodPolicy((rule,)))
    assert not faults(policy, {OWN + "account": "maths", OWN + "partition": "high"})
    assert "maths" in faults(policy, {OWN + "account": "physics"})[0]
    assert "jobs.qos" in faults(policy, {OWN + "qos": "normal"})[0], "the rule says nothing of it"


def test_without_a_configuration_nothing_is_held_to_lists() -> None:
    result = translate([a_pod(annotations={OWN + "account": "a"})], {}, TranslationPolicy(), NOW)
    assert isinstance(result, Translated)


def snapshot(*partitions: SlurmPartition) -> SlurmSnapshot:
    return SlurmSnapshot(partitions={one.name: one for one in partitions}, known=True)


def test_partitions_are_restricted_by_what_slurm_says_of_them() -> None:
    found = snapshot(
        SlurmPartition("batch", default=True, priority_tier=2, reserved_for=("AllowQos=normal",)),
        SlurmPartition("low", priority_tier=1),
        SlurmPartition("same", priority_tier=2),
        SlurmPartition("high", priority_tier=3),
        SlurmPartition("closed", reserved_for=("AllowGroups=bob", "AllowAccounts=physics")),
    )
    assert restricted_partitions(found) == {
        "high": "PriorityTier=3 above 2",
        "closed": "AllowGroups=bob, AllowAccounts=physics",
    }


def test_without_a_default_partition_the_lowest_tier_counts() -> None:
    found = snapshot(SlurmPartition("low", priority_tier=1), SlurmPartition("high", priority_tier=2))
    assert restricted_partitions(found) == {"high": "PriorityTier=2 above 1"}


def test_before_slurm_was_read_it_is_not_known_which_are_restricted() -> None:
    assert restricted_partitions(SlurmSnapshot()) is None
