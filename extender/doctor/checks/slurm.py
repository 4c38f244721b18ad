"""Check slurmrestd, its token, slurmctld's clock and the partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from extender.doctor.facts import Address, Token
from extender.doctor.finding import Finding, error, ok, skipped, warning
from extender.doctor.registry import CheckGroup
from extender.doctor.slurm_conf import KnownSlurmConf
from extender.domain.cluster import SlurmSnapshot
from extender.domain.nodes.fences import weak
from extender.domain.policy.named import restricted_partitions
from extender.domain.policy.selectors import fits
from extender.domain.printable import shortened

check = CheckGroup()

NEWEST = (26, 5)
"""The newest release of Slurm that this version was tested with."""

APART_S = 5.0
"""Clocks are shown in whole seconds, and an answer takes a moment."""

FAR_S = 60.0
"""Slurm accepts a credential for two minutes, and refuses a token with a start time in the future."""

TOKEN_SOON_S = 900.0
"""A token with less time left should have been renewed; `scontrol token` creates them for half an hour."""

_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""OpenSSL's name of the error."""

_NAMED = 5
"""Partitions that a line names; the rest is counted."""


@check(needs=lambda facts: (facts.slurm.addresses, facts.slurm.newest_api))
def slurmrestd(addresses: Sequence[Address], newest: int) -> Iterator[Finding]:
    """Judge the answer of each address. `newest` is the newest API version that this program uses."""
    for one in addresses:
        yield _address(one, newest)
    clusters = {one.cluster for one in addresses if one.cluster}
    if len(clusters) > 1:
        yield error(
            "slurmrestd",
            f"the addresses belong to different clusters: {', '.join(sorted(clusters))}",
            "list only addresses of one cluster in slurm.addresses: the extender ignores answers of other clusters",
        )


def _address(one: Address, newest: int) -> Finding:
    name = "slurmrestd"
    if one.unsupported:
        return error(name, f"{one.url}: {one.error}", "run slurmrestd of Slurm 23.11.6 or newer there")
    if one.error and one.remote:
        return skipped(
            name,
            f"{one.url} is a name of the cluster's own network: {one.error}",
            "run the doctor in the extender's Pod, or use `kubectl port-forward` and --set 'slurm.addresses=[http://…]'",
        )
    if one.refused:
        return error(name, f"{one.url}: {one.error}", "slurmrestd answers; see the lines about the token")
    if _UNTRUSTED in one.error:
        return error(
            name,
            f"{one.url}: {one.error}",
            "set slurm.tls.caFile to the authority that signed its certificate, and use a name that it has",
        )
    if one.unusable_tls:
        return error(
            name, f"{one.url}: {one.error}", "check that the files of slurm.tls exist, are readable and are PEM"
        )
    if one.error:
        return error(
            name,
            f"{one.url}: {one.error}",
            "check slurm.addresses, that slurmrestd runs there with SLURM_JWT=daemon in its environment, and that "
            "firewalls and NetworkPolicies allow the connection",
        )
    seen = f"{one.url}: Slurm {one.release}, API v0.0.{one.api_version}"
    seen += f", cluster {one.cluster}" if one.cluster else ""
    if one.responding is False:
        return error(
            name,
            f"{seen}; slurmctld does not answer it",
            "check whether slurmctld runs (`scontrol ping`); slurmrestd reports a refused token in the same way, so "
            "see the lines about the token too",
        )
    if one.api_version == newest and _newer(one.release):
        return warning(name, f"{seen}: this version was not tested with it", "see CHANGELOG.md for a version that was")
    return ok(name, seen)


def _newer(release: str) -> bool:
    parts = release.split(".")
    return len(parts) > 1 and all(part.isdigit() for part in parts[:2]) and (int(parts[0]), int(parts[1])) > NEWEST


@check(
    needs=lambda facts: (
        facts.slurm.token,
        facts.config.slurm.user,
        facts.now + (facts.slurm.ahead_s or 0.0),
        _slurm_user(facts.conf),
    )
)
def token(credential: Token, user: str, now: float, slurm_user: str) -> Iterator[Finding]:
    """Judge the token by its end and its rights.

    `user` is slurm.user, `slurm_user` SlurmUser of slurm.conf if known, `now` the time by slurmctld's clock.
    """
    where = f"slurm.{credential.source}"
    if credential.remote:
        yield skipped(
            "token",
            f"{where}: {credential.error}",
            "run `slurm-extender doctor` in the extender's Pod, or name a token on this machine: "
            "--set slurm.tokenFile=FILE",
        )
    elif credential.error:
        yield error(
            "token", f"{where}: {credential.error}", "write the token there: `scontrol token username=slurm lifespan=…`"
        )
    else:
        yield from _expiry(credential, where, now)
        yield from _accepted(credential, where, user, slurm_user)


def _expiry(credential: Token, where: str, now: float) -> Iterator[Finding]:
    if credential.expires_at is None or credential.source == "jwtKeyFile":
        return
    left = credential.expires_at - now
    if left <= 0:
        yield error("token", f"{where}: it expired {-left:.0f} s ago", "renew it, and check why it was not renewed")
    elif credential.source == "token":
        yield warning(
            "token",
            f"{where}: it expires in {_long(left)}, and a token in the configuration is not renewed",
            "use slurm.tokenFile and renew the file, or slurm.jwtKeyFile",
        )
    elif left < TOKEN_SOON_S:
        yield warning("token", f"{where}: it expires in {_long(left)}", "renew the file; the extender reads it again")


def _accepted(credential: Token, where: str, user: str, slurm_user: str) -> Iterator[Finding]:
    if credential.accepted is False:
        yield error(
            "token",
            f"{where}: Slurm refuses it: {credential.refusal}",
            "create a new one with `scontrol token`; slurm.conf needs AuthAltTypes=auth/jwt, and jwt_key must be the "
            "key that signed the token",
        )
    elif credential.accepted is None:
        yield skipped("token", f"{where}: Slurm could not check it: {credential.refusal}", "fix slurmrestd first")
    elif credential.operates is None:
        yield skipped(
            "token",
            f"Slurm accepts it; whether {user} may change nodes and jobs of others is unknown: {credential.refusal}",
            f"see `sacctmgr show user {user}` and SlurmUser in slurm.conf",
        )
    elif not credential.operates:
        yield error(
            "token",
            f"Slurm accepts it, and {user} may not change nodes and jobs of others",
            "set slurm.user to root or SlurmUser, and use a token of that user: Slurm refuses drains and cancellations "
            "otherwise",
        )
    elif slurm_user and user not in {"root", slurm_user}:
        yield warning(
            "token",
            f"{user} is an administrator, but neither root nor SlurmUser ({slurm_user})",
            f"set slurm.user to {slurm_user}: without slurmdbd Slurm does not know its administrators",
        )
    else:
        owner = credential.owner or user
        as_whom = user if owner == user else f"{user}, by the token of {owner},"
        yield ok("token", f"Slurm accepts it; {as_whom} has the rights that the extender needs")


def _long(seconds: float) -> str:
    return f"{seconds / 86400:.0f} days" if seconds > 2 * 86400 else f"{seconds / 60:.0f} min"


def _slurm_user(conf: KnownSlurmConf | None) -> str:
    """Return SlurmUser: `slurm(64030)` in `scontrol show config`."""
    text = conf.get("SlurmUser", "") if conf is not None else None
    return (text or "").partition("(")[0]


@check(needs=lambda facts: None if facts.slurm.snapshot.known else (facts.slurm.trouble,))
def slurmctld(trouble: str) -> Iterator[Finding]:
    """Say that nothing is known of slurmctld, so that the checks below are missing."""
    yield skipped("slurmctld", trouble or "its state could not be read", "fix the errors above and run doctor again")


@check(needs=lambda facts: ("slurmctld", facts.slurm.ahead_s) if facts.slurm.snapshot.known else None)
def clock(whose: str, ahead_s: float | None) -> Iterator[Finding]:
    """Compare a clock with this machine's. `ahead_s`: seconds by which it is ahead; `None`: not known."""
    if ahead_s is None:
        yield skipped("clock", f"{whose}: its time is not known", "compare `date` on both machines")
        return
    seen = f"{whose} is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine"
    if abs(ahead_s) <= APART_S:
        yield ok("clock", f"{whose} agrees with this machine")
    elif abs(ahead_s) <= FAR_S:
        yield warning("clock", seen, "synchronize both clocks by NTP")
    else:
        yield error("clock", seen, "synchronize both clocks by NTP: tokens and credentials are valid for a short time")


@check(needs=lambda facts: (with_modes(facts.slurm.snapshot, facts.conf),) if facts.slurm.snapshot.known else None)
def partitions(slurm: SlurmSnapshot) -> Iterator[Finding]:
    """Judge whether the nodes of each partition can be held (`domain.nodes.fences`), and the default partition."""
    found = slurm.partitions.values()
    if not found:
        yield error("partitions", "Slurm shows none to this token", "no job can start: see `scontrol show partition`")
        return
    sentences = weak(slurm)
    for sentence in sentences:
        if "GANG" in sentence:
            yield error("partitions", sentence, "set PreemptMode=OFF, CANCEL or REQUEUE on it")
        else:
            yield warning("partitions", sentence, "set GraceTime on it, longer than the grace period of most Pods")
    unknown = sorted(one.name for one in found if "UNKNOWN" in one.preempt_mode)
    if unknown:
        yield skipped(
            "partitions",
            f"PreemptMode of {', '.join(unknown)} is not shown before Slurm 26.05",
            "run `scontrol show partition | grep -E 'PartitionName|PreemptMode'`, or pass slurm.conf by --slurm-conf",
        )
    if not any(one.default for one in found):
        yield warning(
            "partitions",
            "no default partition is known: slurmrestd marks it from 26.05 on",
            "name it in slurm.defaultPartition, or the partition of all jobs in jobs.defaults.partition",
        )
    if not sentences and not unknown:
        yield ok("partitions", f"{len(found)}; the nodes of all can be held for Pods")


@check(
    needs=lambda facts: (
        (with_modes(facts.slurm.snapshot, facts.conf), facts.config.jobs.partitions)
        if facts.slurm.snapshot.known
        else None
    )
)
def partition_access(slurm: SlurmSnapshot, listed: Sequence[str]) -> Iterator[Finding]:
    """List the restricted partitions that Pods may name. `listed` is `jobs.partitions`.

    The extender submits jobs as an administrator, so Slurm itself refuses no Pod.
    """
    for one in slurm.partitions.values():
        if one.default and one.reserved_for:
            yield warning(
                "partitions",
                f"every Pod may use the default partition {one.name}, which has {', '.join(one.reserved_for)}",
                "name an open partition in jobs.defaults.partition, or restrict it by a rule of the policy",
            )
    restricted = restricted_partitions(slurm) or {}
    opened = {name: why for name, why in restricted.items() if fits(name, listed)}
    closed = {name: why for name, why in restricted.items() if name not in opened}
    if opened:
        yield ok("partitions", f"any Pod may name {_shortly(opened)}, because jobs.partitions allows it")
    if closed:
        yield ok("partitions", f"without a rule of the policy no Pod may name {_shortly(closed)}")


def _shortly(restricted: Mapping[str, str]) -> str:
    return shortened([f"{name} ({why})" for name, why in sorted(restricted.items())], _NAMED)


def with_modes(slurm: SlurmSnapshot, conf: KnownSlurmConf | None) -> SlurmSnapshot:
    """Return the snapshot with the PreemptMode of slurm.conf for partitions whose mode slurmrestd does not show.

    A partition without PreemptMode has that of the cluster (`slurm.conf(5)`); only the file shows which have one.
    """
    of_all = None if conf is None else conf.words("PreemptMode")
    if conf is None or of_all is None or (of_all and not conf.complete):
        return slurm
    inherited = ",".join(sorted(of_all)) or "OFF"
    known = {
        name: replace(one, preempt_mode=conf.partition_modes.get(name, inherited).upper())
        if "UNKNOWN" in one.preempt_mode
        else one
        for name, one in slurm.partitions.items()
    }
    return replace(slurm, partitions=known)
