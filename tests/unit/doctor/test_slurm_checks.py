"""slurmrestd's addresses, the token, the clocks and the partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from extender.assembly.io_context import LoopClock, token_source
from extender.config.load import parse
from extender.doctor.checks.slurm import clock, partition_access, partitions, slurmrestd, token, with_modes
from extender.doctor.facts import Address, Token
from extender.doctor.finding import Finding, Verdict
from extender.doctor.gather.slurm import gather_slurm
from extender.doctor.slurm_conf import KnownSlurmConf, read_text
from extender.doctor.tools import ONCE, Tools
from extender.domain.cluster import SlurmPartition, SlurmSnapshot
from slurmclient import SlurmClient, StaticToken, TlsOptions
from slurmclient.auth import TokenSource
from tests.builders.slurmrestd_fake import FunctionSender

OK, WARNING, ERROR, SKIPPED = Verdict
HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\n"
NOW = 1_800_000_000.0
GOOD = Address("http://a:6820", "26.05.5", 45, "c", responding=True)
MINE = Token("tokenFile", owner="slurm", expires_at=NOW + 86400, accepted=True, operates=True)


def verdicts(found: Iterable[Finding]) -> list[Verdict]:
    return [one.verdict for one in found]


@pytest.mark.parametrize(
    ("address", "verdict", "said"),
    [
        (GOOD, OK, "Slurm 26.05.5, API v0.0.45, cluster c"),
        (replace(GOOD, responding=None), OK, "26.05.5"),
        (replace(GOOD, responding=False), ERROR, "slurmctld does not answer"),
        (replace(GOOD, release="26.11.0"), WARNING, "was not tested"),
        (Address("http://a:6820", error="connection refused"), ERROR, "connection refused"),
        (Address("http://a:6820", error="the token was refused", refused=True), ERROR, "the token was refused"),
        (Address("http://a.b.svc", error="no such host", remote=True), SKIPPED, "the cluster's own network"),
        (Address("http://a:6820", error="this is Slurm 22.05", unsupported=True), ERROR, "22.05"),
    ],
)
def test_each_address_of_slurmrestd_has_its_line(address: Address, verdict: Verdict, said: str) -> None:
    [one] = slurmrestd([address], 45)
    assert one.verdict is verdict
    assert said in one.seen


def test_an_untrusted_certificate_of_slurmrestd_is_reported_as_one_of_its_authority() -> None:
    [one] = slurmrestd([Address("https://a:6820", error="[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")], 45)
    assert "slurm.tls.caFile" in one.advice


async def test_a_slurmrestd_that_refuses_the_token_says_so_of_the_token() -> None:
    async def refuse(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(401, text="Authentication failure")

    def client(address: str, source: TokenSource) -> SlurmClient:
        return SlurmClient([address], source, sender=FunctionSender(refuse), retry=ONCE)

    config = parse("apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: t}\n", "f")
    found = await gather_slurm(config, Tools(StaticToken("t"), client, LoopClock()))
    [there] = slurmrestd(found.addresses, 45)
    assert (there.verdict, there.advice) == (ERROR, "slurmrestd answers; see the lines about the token")
    [refused] = token(found.token, "root", NOW, "")
    assert refused.verdict is ERROR
    assert "Slurm refuses it" in refused.seen


async def test_certificates_of_slurmrestd_that_cannot_be_used_are_an_error_of_the_address(tmp_path: Path) -> None:
    def client(address: str, token: TokenSource) -> SlurmClient:
        return SlurmClient([address], token, tls=TlsOptions(ca_file=str(tmp_path / "none.crt")))

    config = parse(f"{HEAD}slurm: {{token: t, addresses: ['https://a:6820']}}\n", "test")
    found = await gather_slurm(config, Tools(StaticToken("t"), client, LoopClock()))
    (one,) = slurmrestd(found.addresses, found.newest_api)
    assert one.verdict is ERROR
    assert f"TLS files (CA {tmp_path}/none.crt, certificate None) cannot be used" in one.seen
    assert "slurm.tls" in one.advice


async def test_a_key_file_of_slurm_that_is_no_key_for_tokens_is_an_error_of_the_token(tmp_path: Path) -> None:
    file = tmp_path / "jwt.key"
    file.write_text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    config = parse(f"{HEAD}slurm: {{jwtKeyFile: {file}, addresses: ['http://127.0.0.1:1']}}\n", "test")
    tools = Tools(token_source(config.slurm), lambda url, token: SlurmClient([url], token, retry=ONCE), LoopClock())
    found = await gather_slurm(config, tools)
    (one,) = token(found.token, "slurm", NOW, "")
    assert one.verdict is ERROR
    assert f"slurm.jwtKeyFile: key file {file} cannot be used" in one.seen


def test_addresses_of_two_clusters_are_wrong() -> None:
    assert verdicts(slurmrestd([GOOD, replace(GOOD, url="http://b", cluster="d")], 45)) == [OK, OK, ERROR]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (MINE, [OK]),
        (replace(MINE, expires_at=NOW - 5), [ERROR, OK]),
        (replace(MINE, expires_at=NOW + 60), [WARNING, OK]),
        (replace(MINE, source="token"), [WARNING, OK]),
        (replace(MINE, source="jwtKeyFile", expires_at=NOW + 60), [OK]),
        (replace(MINE, expires_at=None), [OK]),
        (replace(MINE, accepted=False, refusal="Protocol authentication error"), [ERROR]),
        (replace(MINE, accepted=None, refusal="no answer"), [SKIPPED]),
        (replace(MINE, operates=False), [ERROR]),
        (replace(MINE, operates=None, refusal="odd"), [SKIPPED]),
        (Token("tokenFile", error="token file /t cannot be read: No such file or directory"), [ERROR]),
        (Token("tokenFile", error="token file /t cannot be read", remote=True), [SKIPPED]),
    ],
)
def test_a_token_is_judged_by_its_end_and_by_what_slurm_lets_it_do(given: Token, said: list[Verdict]) -> None:
    assert verdicts(token(given, "slurm", NOW, "")) == said


def test_an_administrator_who_is_not_slurm_s_user_is_worth_a_word() -> None:
    assert verdicts(token(MINE, "alice", NOW, "slurm")) == [WARNING]
    assert verdicts(token(MINE, "root", NOW, "slurm")) == [OK]


@pytest.mark.parametrize(("ahead", "verdict"), [(0.4, OK), (-30.0, WARNING), (300.0, ERROR), (None, SKIPPED)])
def test_clocks_that_differ_are_said(ahead: float | None, verdict: Verdict) -> None:
    assert verdicts(clock("slurmctld", ahead)) == [verdict]


def test_a_clock_that_is_behind_is_called_so() -> None:
    [one] = clock("slurmctld", -30.0)
    assert one.seen == "slurmctld is 30 s behind this machine"


def a_slurm_snapshot(*found: SlurmPartition) -> SlurmSnapshot:
    return SlurmSnapshot(partitions={one.name: one for one in found}, known=True)


LOW = SlurmPartition("low", frozenset({"n1"}), default=True, priority_tier=1, preempt_mode="CANCEL", grace_time_s=30)
HIGH = SlurmPartition("high", frozenset({"n1"}), priority_tier=10, preempt_mode="OFF")


def test_a_default_partition_that_is_kept_for_some_is_named_since_every_pod_may_use_it() -> None:
    kept = replace(LOW, reserved_for=("AllowGroups=physics",))
    [one] = partition_access(a_slurm_snapshot(kept), ())
    assert one.verdict is WARNING
    assert "low" in one.seen
    assert "AllowGroups=physics" in one.seen
    assert list(partition_access(a_slurm_snapshot(LOW), ())) == []


def test_it_is_said_which_partitions_pods_may_name_and_which_they_may_not() -> None:
    snapshot = a_slurm_snapshot(LOW, HIGH, *(replace(HIGH, name=f"more-{number}") for number in range(9)))
    [opened, closed] = partition_access(snapshot, ("hi*",))
    assert verdicts([opened, closed]) == [OK, OK]
    assert "any Pod may name high (PriorityTier=" in opened.seen
    assert "no Pod may name more-0 (PriorityTier=" in closed.seen
    assert closed.seen.endswith("and 4 more")


def test_partitions_that_keep_their_nodes_are_good() -> None:
    assert verdicts(partitions(a_slurm_snapshot(LOW, HIGH))) == [OK]


def test_a_partition_that_is_preempted_without_grace_is_named() -> None:
    [one] = partitions(a_slurm_snapshot(replace(LOW, grace_time_s=0), HIGH))
    assert one.verdict is WARNING
    assert "partition low" in one.seen


def test_gang_is_wrong() -> None:
    assert verdicts(partitions(a_slurm_snapshot(replace(LOW, preempt_mode="GANG,SUSPEND")))) == [ERROR]


def test_no_partition_at_all_is_wrong() -> None:
    assert verdicts(partitions(a_slurm_snapshot())) == [ERROR]


def test_without_a_default_partition_pods_that_name_none_are_refused() -> None:
    assert verdicts(partitions(a_slurm_snapshot(replace(LOW, default=False)))) == [WARNING, OK]


def test_a_mode_that_slurmrestd_does_not_show_is_not_judged() -> None:
    [one] = partitions(a_slurm_snapshot(replace(LOW, preempt_mode="UNKNOWN")))
    assert one.verdict is SKIPPED


def test_slurm_conf_shows_the_modes_that_slurmrestd_does_not() -> None:
    unknown = a_slurm_snapshot(replace(LOW, preempt_mode="UNKNOWN"), replace(HIGH, preempt_mode="UNKNOWN"))
    told = with_modes(unknown, read_text("PreemptMode=GANG,SUSPEND\nPartitionName=high PreemptMode=off", "f"))
    assert {name: one.preempt_mode for name, one in told.partitions.items()} == {"low": "GANG,SUSPEND", "high": "OFF"}
    assert with_modes(unknown, None) is unknown
    shown = "Configuration data as of 2026\nPreemptMode             = "
    assert with_modes(unknown, read_text(f"{shown}CANCEL", "-")) is unknown
    off = with_modes(unknown, read_text(f"{shown}(null)", "-"))
    assert {one.preempt_mode for one in off.partitions.values()} == {"OFF"}
    assert with_modes(unknown, KnownSlurmConf({}, "slurmrestd")) is unknown
    assert with_modes(a_slurm_snapshot(LOW), read_text("PreemptMode=SUSPEND", "f")).partitions["low"] == LOW
