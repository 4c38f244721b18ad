"""Check kube-scheduler's configuration: its profile calls the extender, and does not place Pods without Slurm.

The effect of each field is that in kube-scheduler's `extender.go`, `schedule_one.go` and `apis/config/v1/types.go`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from extender.config.values import read_duration
from extender.doctor.facts import CalledService, ExpectedProfile, Json, SchedulerConfigFile
from extender.doctor.finding import Finding, error, ok, skipped, warning
from extender.doctor.registry import CheckGroup

check = CheckGroup()

KIND = "KubeSchedulerConfiguration"

ALL_NODES_BELOW = 100
"""With fewer nodes kube-scheduler looks at each (`numFeasibleNodesToFind`)."""

PLUGINS = (
    ("NodeResourcesFit", ("preFilter", "filter"), "a Pod that finds every node full never reaches Slurm's queue"),
    ("DefaultPreemption", ("postFilter",), "kube-scheduler evicts Pods for one that Slurm has not placed"),
)
"""Plugins that must be disabled, their extension points, and what happens otherwise."""

_SERVICE = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\..+)?")

Line = tuple[Callable[[str, str, str], Finding], str, str]


@check(needs=lambda facts: (facts.empty_files,))
def empty_files(names: Sequence[str]) -> Iterator[Finding]:
    """Report files given as kube-scheduler's configuration that contain none."""
    for name in names:
        yield error("kube-scheduler", f"{name}: it contains no {KIND}", "pass the file of kube-scheduler's --config")


@check(needs=lambda facts: (facts.schedulers, facts.expected))
def schedulers(found: Sequence[SchedulerConfigFile] | None, wanted: ExpectedProfile) -> Iterator[Finding]:
    """Judge the configurations of kube-scheduler. `None`: no access, and none was given."""
    if found is None:
        yield skipped(
            "kube-scheduler",
            "no access to its configuration",
            "pass it by --scheduler-config FILE, or run this as a user who may read Deployments and ConfigMaps",
        )
        return
    if not found:
        yield warning(
            "kube-scheduler",
            "no Deployment runs a kube-scheduler with a configuration in a ConfigMap",
            f"manifests/base has one for {wanted.scheduler}; for one outside of the cluster, use --scheduler-config",
        )
    for one in found:
        if one.error:
            seen = f"{one.where}, {one.error}"
            yield warning("kube-scheduler", seen, "fix it: kube-scheduler exits at its start with such a file")
    serving = [one for one in found if wanted.scheduler in _names(one.document)]
    for one in serving or (each for each in found if not each.error):
        yield from profile(one.document, one.where, wanted)
    if len(serving) > 1:
        yield error(
            "kube-scheduler",
            f"{len(serving)} kube-schedulers serve {wanted.scheduler}: {', '.join(one.where for one in serving)}",
            "remove all but one: they would place the same Pods",
        )


def profile(document: Json, where: str, wanted: ExpectedProfile) -> list[Finding]:
    """Return what is wrong with one configuration, or one line that it is good."""
    profiles = [one for one in _list(document, "profiles") if isinstance(one, dict)]
    own = next((one for one in profiles if one.get("schedulerName") == wanted.scheduler), None)
    entries = own_entries(document, wanted)
    if own is None:
        names = ", ".join(str(one.get("schedulerName", "default-scheduler")) for one in profiles) or "default-scheduler"
        seen = f"{where}: no profile has the schedulerName {wanted.scheduler}; there is {names}"
        advice = "set it there, or scheduler.name here: until both are equal, Pods of this name wait indefinitely"
        return [error("kube-scheduler", seen, advice)]
    if not entries:
        seen = f"{where}: no extender whose urlPrefix ends in {wanted.prefix}"
        advice = "copy extenders from manifests/core/kube-scheduler.yaml: without them Pods are placed without Slurm"
        return [error("kube-scheduler", seen, advice)]
    problems = [
        *_others(document, profiles, wanted),
        *dict.fromkeys(line for one in entries for line in (*_address(one, wanted), *_extender(one))),
        *_verbs(entries, wanted),
        *_plugins(own),
        *_scheduling(document, own, wanted),
    ]
    if not problems:
        return [ok("kube-scheduler", f"{where}: profile {wanted.scheduler} calls {entries[0]['urlPrefix']}")]
    return [finding("kube-scheduler", f"{where}: {seen}", advice) for finding, seen, advice in problems]


def own_entries(document: Json, wanted: ExpectedProfile) -> list[Json]:
    """Return the entries of `extenders` that are this extender, by the path of its address: one or two."""
    extenders = [one for one in _list(document, "extenders") if isinstance(one, dict) and one.get("urlPrefix")]
    return [one for one in extenders if _split(one["urlPrefix"]).path.rstrip("/") == wanted.prefix]


def called_by(document: Json, wanted: ExpectedProfile) -> list[str]:
    """Return the names that this kube-scheduler expects in the extender's certificate."""
    found: list[str] = []
    for one in own_entries(document, wanted):
        parts = _split(one["urlPrefix"])
        if parts.scheme == "https" and parts.hostname:
            found.append(str(_map(one.get("tlsConfig")).get("serverName") or parts.hostname))
    return list(dict.fromkeys(found))


def called(document: Json, where: str, wanted: ExpectedProfile) -> CalledService | None:
    """Return the Service that a configuration calls; `None`: its address is not that of a Service."""
    entries = own_entries(document, wanted)
    parts = _split(entries[0]["urlPrefix"] if entries else "")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    found = _SERVICE.fullmatch(parts.hostname or "")
    return CalledService(where, found[2], found[1], port) if found else None


@check(needs=lambda facts: (facts.services,))
def services(called_services: Sequence[CalledService]) -> Iterator[Finding]:
    """Report Services that kube-scheduler calls and that do not exist, or lack the port."""
    for one in called_services:
        prefix = f"{one.where}: urlPrefix leads to the Service {one.namespace}/{one.name}"
        if one.ports is None:
            yield error(
                "kube-scheduler",
                f"{prefix}, which does not exist",
                "write the extender's Service and its namespace there; an overlay's namespace does not change this "
                "file (manifests/README.md)",
            )
        elif one.port not in one.ports:
            has = ", ".join(str(port) for port in one.ports) or "none"
            yield error("kube-scheduler", f"{prefix}, which has no port {one.port}; it has {has}", "use one of those")


def _others(document: Json, profiles: Sequence[Json], wanted: ExpectedProfile) -> Iterator[Line]:
    others = [str(one.get("schedulerName", "default-scheduler")) for one in profiles]
    others = [name for name in others if name != wanted.scheduler]
    if unlisted := [name for name in others if name not in wanted.other_profiles]:
        yield (
            error,
            f"its other profiles ({', '.join(unlisted)}) leave their Bindings to the extender, which refuses them",
            "give Slurm its own kube-scheduler, or list them in scheduler.otherProfiles here",
        )
    elif others:
        yield (
            warning,
            f"its other profiles ({', '.join(others)}) call the extender too, since extenders belong to the process",
            "give Slurm its own kube-scheduler: Pods of the other profiles wait while the extender is down",
        )
    binders = [one for one in _list(document, "extenders") if isinstance(one, dict) and one.get("bindVerb")]
    if len(binders) > 1:
        yield (error, f"{len(binders)} extenders have a bindVerb", "kube-scheduler starts with at most one: remove one")


def _address(extender: Json, wanted: ExpectedProfile) -> Iterator[Line]:
    url, tls = str(extender["urlPrefix"]), _map(extender.get("tlsConfig"))
    scheme = _split(url).scheme
    if scheme == "http" and wanted.https:
        yield (
            error,
            f"urlPrefix is {url}, and http.tls is set here: every call fails at the first byte",
            "set urlPrefix: https://…; enableHTTPS does not change the address",
        )
    elif scheme == "https" and not wanted.https:
        yield (
            error,
            f"urlPrefix is {url}, and http.tls is not set here: no handshake",
            "set http.tls, or use http there",
        )
    elif scheme == "https":
        if not (tls.get("caFile") or tls.get("caData")):
            insecure = extender.get("enableHTTPS") or tls.get("insecure")
            how = "verifies no certificate" if insecure else "trusts the system's authorities"
            yield warning, f"tlsConfig has no caFile, so kube-scheduler {how}", "name the authority of the certificate"
        if wanted.client_certificates and not (tls.get("certFile") or tls.get("certData")):
            yield (
                error,
                "tlsConfig has no certFile, and http.tls.clientCaFile requires a certificate of every client",
                "give kube-scheduler a certificate that this authority signed",
            )
    elif extender.get("enableHTTPS"):
        yield (
            warning,
            f"enableHTTPS is true and urlPrefix is {url}",
            "write https there: it does not change the address",
        )


def _verbs(entries: Sequence[Json], wanted: ExpectedProfile) -> Iterator[Line]:
    """Judge which entry has which verb, and the time-out of each: all Pods wait for `/filter`, one for `/bind`."""
    for key, verb in zip(("filterVerb", "bindVerb"), wanted.verbs, strict=True):
        entry = next((one for one in entries if one.get(key)), entries[0])
        value = entry.get(key) or ""
        if value != verb:
            without = "calls no /filter" if verb == "filter" else "binds by itself"
            yield error, f"{key} is {value!r}", f"set {key}: {verb}: without it kube-scheduler {without}"
            continue
        stated = entry.get("httpTimeout", "5s")
        try:
            timeout = read_duration(stated) or 5.0
        except ValueError:
            yield error, f"httpTimeout of {key} is {stated!r}", "set a duration such as 5s"
            continue
        seen = f"httpTimeout of {key} is {timeout:g} s"
        if timeout < 5.0:
            yield warning, f"{seen}, and a call may wait 4.8 s for a change of leader", "set httpTimeout: 5s"
        elif verb == "filter" and timeout > 30.0:
            yield warning, f"{seen}: all Pods may wait that long for one call", "set httpTimeout: 5s"
        elif verb == "bind" and timeout < wanted.bind_timeout_s:
            yield (
                warning,
                f"{seen}, below http.bindTimeout ({wanted.bind_timeout_s:g} s): it gives up calls that are held",
                f"set httpTimeout: {wanted.bind_timeout_s:g}s in an entry of its own for bindVerb, or a shorter "
                "http.bindTimeout here",
            )


def _extender(extender: Json) -> Iterator[Line]:
    for key in ("prioritizeVerb", "preemptVerb"):
        if extender.get(key):
            yield error, f"{key} is {extender[key]!r}, which the extender does not serve", f"remove {key}"
    if extender.get("nodeCacheCapable") is not True:
        yield error, "nodeCacheCapable is not true: whole Node objects are sent", "set nodeCacheCapable: true"
    if extender.get("ignorable"):
        seen = "ignorable is true: while the extender is down every Pod may go to any node"
        yield error, seen, "set ignorable: false"
    if extender.get("managedResources"):
        seen = "managedResources is set: Pods that request none of those are placed without Slurm"
        yield error, seen, "remove it, and give Slurm its own kube-scheduler"


def _plugins(own: Json) -> Iterator[Line]:
    plugins = _map(own.get("plugins"))

    def disabled(point: str) -> set[str]:
        return {str(one.get("name")) for one in _list(_map(plugins.get(point)), "disabled") if isinstance(one, dict)}

    for name, points, price in PLUGINS:
        if not disabled("multiPoint") & {name, "*"} and not all(disabled(point) & {name, "*"} for point in points):
            yield (
                error,
                f"plugin {name} is not disabled: {price}",
                f"set plugins.multiPoint.disabled: [{{name: {name}}}]",
            )


def _scheduling(document: Json, own: Json, wanted: ExpectedProfile) -> Iterator[Line]:
    share = own.get("percentageOfNodesToScore", document.get("percentageOfNodesToScore", 0))
    if share != 100:
        few = wanted.nodes is not None and wanted.nodes < ALL_NODES_BELOW
        seen = (
            f"percentageOfNodesToScore is {share or 'not set'}: from {ALL_NODES_BELOW} nodes on kube-scheduler may not"
        )
        yield warning if few else error, f"{seen} offer the node of Slurm", "set percentageOfNodesToScore: 100"
    backoff = document.get("podMaxBackoffSeconds", 10)
    if isinstance(backoff, int) and backoff >= wanted.offer_timeout_s:
        yield (
            error,
            f"podMaxBackoffSeconds is {backoff}, and limits.allocationOfferTimeout {wanted.offer_timeout_s:g} s: "
            "allocations are released before kube-scheduler retries their Pods",
            "set it below limits.allocationOfferTimeout; the shipped value is 60",
        )
    election = _map(document.get("leaderElection"))
    elects, lease = election.get("leaderElect", True), election.get("resourceName", "kube-scheduler")
    if elects and lease == "kube-scheduler" and election.get("resourceNamespace", "kube-system") == "kube-system":
        yield (
            error,
            "leaderElection.resourceName is kube-scheduler, the Lease of the cluster's own: only one of the two works",
            "set leaderElection: {resourceName: slurm-scheduler, resourceNamespace: slurm-extender}",
        )


def _names(document: Json) -> list[str]:
    return [str(one.get("schedulerName")) for one in _list(document, "profiles") if isinstance(one, dict)]


def _list(document: Json, key: str) -> Sequence[Any]:
    found = document.get(key)
    return found if isinstance(found, list) else ()


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _split(url: Any) -> SplitResult:
    """Return the parts of an address; empty parts if it is none."""
    try:
        return urlsplit(str(url))
    except ValueError:
        return urlsplit("")
