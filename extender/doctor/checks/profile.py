"""kube-scheduler's configuration: does its profile reach us, and does it do nothing behind Slurm's back?

What each field does is read in kube-scheduler's `extender.go`, `schedule_one.go` and `apis/config/v1/types.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from extender.config.values import read_duration
from extender.doctor.finding import Finding, ok, warning, wrong

CHECK = "kube-scheduler"

KIND = "KubeSchedulerConfiguration"

Json = Mapping[str, Any]

ALL_NODES_BELOW = 100
"""With fewer nodes kube-scheduler looks at each (`numFeasibleNodesToFind`)."""


@dataclass(frozen=True, slots=True)
class ExpectedProfile:
    """What the extender's configuration asks of the scheduler's."""

    scheduler: str
    prefix: str = "/scheduler"
    verbs: tuple[str, str] = ("filter", "bind")
    https: bool = False
    client_certificates: bool = False
    other_profiles: Collection[str] = ()
    unclaimed_after_s: float = 150.0
    nodes: int | None = None


def profile(document: Json, where: str, wanted: ExpectedProfile) -> list[Finding]:
    """What is wrong with one document, or one line that nothing is."""
    profiles = [one for one in _list(document, "profiles") if isinstance(one, dict)]
    own = next((one for one in profiles if one.get("schedulerName") == wanted.scheduler), None)
    if own is None:
        names = ", ".join(str(one.get("schedulerName", "default-scheduler")) for one in profiles) or "default-scheduler"
        return [
            wrong(
                CHECK,
                f"{where}: no profile has the schedulerName {wanted.scheduler}; there is {names}",
                "set it there, or scheduler.name here: until both are the same, Pods of this name wait for ever",
            )
        ]
    extender = ours(document, wanted)
    if extender is None:
        return [
            wrong(
                CHECK,
                f"{where}: no extender whose urlPrefix ends in {wanted.prefix}",
                "take extenders from manifests/base/kube-scheduler.yaml: without them Pods are placed without Slurm",
            )
        ]
    said = [
        *_others(document, profiles, wanted),
        *_address(extender, wanted),
        *_verbs(extender, wanted),
        *_manners(extender),
        *_plugins(own),
        *_paces(document, own, wanted),
    ]
    if not said:
        return [ok(CHECK, f"{where}: profile {wanted.scheduler} reaches {extender['urlPrefix']}")]
    return [finding(CHECK, f"{where}: {seen}", advice) for finding, seen, advice in said]


def called_by(document: Json, wanted: ExpectedProfile) -> list[str]:
    """By which names this kube-scheduler knows our certificate."""
    extender = ours(document, wanted)
    parts = _split(extender["urlPrefix"] if extender is not None else "")
    if extender is None or parts.scheme != "https" or not parts.hostname:
        return []
    return [str(_map(extender.get("tlsConfig")).get("serverName") or parts.hostname)]


Line = tuple[Callable[[str, str, str], Finding], str, str]


def ours(document: Json, wanted: ExpectedProfile) -> Json | None:
    """The extender among those of a document that is this one, by the path of its address."""
    extenders = [one for one in _list(document, "extenders") if isinstance(one, dict) and one.get("urlPrefix")]
    return next((one for one in extenders if _split(one["urlPrefix"]).path.rstrip("/") == wanted.prefix), None)


def _others(document: Json, profiles: Sequence[Json], wanted: ExpectedProfile) -> Iterator[Line]:
    others = [str(one.get("schedulerName", "default-scheduler")) for one in profiles]
    others = [name for name in others if name != wanted.scheduler]
    if unlisted := [name for name in others if name not in wanted.other_profiles]:
        yield (
            wrong,
            f"its other profiles ({', '.join(unlisted)}) leave their Bindings to the extender, which refuses them",
            "give Slurm a kube-scheduler of its own, or list them in scheduler.otherProfiles here",
        )
    elif others:
        yield (
            warning,
            f"its other profiles ({', '.join(others)}) call the extender too, which belongs to the whole process",
            "give Slurm a kube-scheduler of its own: Pods of the others wait while the extender is away",
        )
    binders = [one for one in _list(document, "extenders") if isinstance(one, dict) and one.get("bindVerb")]
    if len(binders) > 1:
        yield (wrong, f"{len(binders)} extenders have a bindVerb", "kube-scheduler starts with at most one")


def _address(extender: Json, wanted: ExpectedProfile) -> Iterator[Line]:
    url = str(extender["urlPrefix"])
    scheme = _split(url).scheme
    tls = _map(extender.get("tlsConfig"))
    if scheme == "http" and wanted.https:
        yield (
            wrong,
            f"urlPrefix is {url}, and http.tls is set here: every call fails at the first byte",
            "urlPrefix: https://…; enableHTTPS does not change the address",
        )
    elif scheme == "https" and not wanted.https:
        yield (
            wrong,
            f"urlPrefix is {url}, and http.tls is not set here: no handshake",
            "set http.tls, or call by http",
        )
    elif scheme == "https":
        if not (tls.get("caFile") or tls.get("caData")):
            what = (
                "verifies no certificate"
                if extender.get("enableHTTPS") or tls.get("insecure")
                else "trusts the system's"
            )
            yield (
                warning,
                f"tlsConfig has no caFile, so kube-scheduler {what}",
                "name the authority of our certificate",
            )
        if wanted.client_certificates and not (tls.get("certFile") or tls.get("certData")):
            yield (
                wrong,
                "tlsConfig has no certFile, and http.tls.clientCaFile wants one of every caller",
                "give kube-scheduler a certificate that this authority has signed",
            )
    elif extender.get("enableHTTPS"):
        yield (
            warning,
            f"enableHTTPS is true and urlPrefix is {url}",
            "it does not change the address: write https there",
        )


def _verbs(extender: Json, wanted: ExpectedProfile) -> Iterator[Line]:
    for key, verb in zip(("filterVerb", "bindVerb"), wanted.verbs, strict=True):
        given = extender.get(key) or ""
        if given != verb:
            yield (
                wrong,
                f"{key} is {given!r}",
                f"{key}: {verb}: without it kube-scheduler {'asks nobody' if verb == 'filter' else 'binds by itself'}",
            )
    for key in ("prioritizeVerb", "preemptVerb"):
        if extender.get(key):
            yield (wrong, f"{key} is {extender[key]!r}, which nothing here answers", f"take {key} out")


def _manners(extender: Json) -> Iterator[Line]:
    if extender.get("nodeCacheCapable") is not True:
        yield (
            wrong,
            "nodeCacheCapable is not true: whole Node objects are sent",
            "nodeCacheCapable: true; names are read alone",
        )
    if extender.get("ignorable"):
        yield (wrong, "ignorable is true: while the extender is away every Pod goes to any node", "ignorable: false")
    if extender.get("managedResources"):
        yield (
            wrong,
            "managedResources is set: Pods that ask for none of those are placed without Slurm",
            "take it out, and give Slurm a kube-scheduler of its own",
        )
    given = extender.get("httpTimeout", "5s")
    try:
        timeout = read_duration(given) or 5.0
    except ValueError:
        yield (wrong, f"httpTimeout is {given!r}", "a duration such as 5s")
        return
    if timeout < 5.0:
        yield (
            warning,
            f"httpTimeout is {timeout:g} s, and a call may be held for 4.8 s while leaders change",
            "httpTimeout: 5s",
        )
    elif timeout > 30.0:
        yield (warning, f"httpTimeout is {timeout:g} s: so long all Pods wait behind one call", "httpTimeout: 5s")


def _plugins(ours: Json) -> Iterator[Line]:
    plugins = _map(ours.get("plugins"))
    multi = {
        str(one.get("name")) for one in _list(_map(plugins.get("multiPoint")), "disabled") if isinstance(one, dict)
    }
    for name, points, price in (
        ("NodeResourcesFit", ("preFilter", "filter"), "a Pod that finds every node full never reaches Slurm's queue"),
        ("DefaultPreemption", ("postFilter",), "kube-scheduler evicts Pods for one that Slurm has not placed"),
    ):
        of_points = [
            {str(one.get("name")) for one in _list(_map(plugins.get(point)), "disabled") if isinstance(one, dict)}
            for point in points
        ]
        if not (multi & {name, "*"}) and not all(disabled & {name, "*"} for disabled in of_points):
            yield (wrong, f"plugin {name} is not disabled: {price}", f"plugins.multiPoint.disabled: [{{name: {name}}}]")


def _paces(document: Json, ours: Json, wanted: ExpectedProfile) -> Iterator[Line]:
    share = ours.get("percentageOfNodesToScore", document.get("percentageOfNodesToScore", 0))
    if share != 100:
        few = wanted.nodes is not None and wanted.nodes < ALL_NODES_BELOW
        yield (
            warning if few else wrong,
            f"percentageOfNodesToScore is {share or 'not set'}: from {ALL_NODES_BELOW} nodes on Slurm's node may be "
            "missing in what the extender is shown",
            "percentageOfNodesToScore: 100",
        )
    backoff = document.get("podMaxBackoffSeconds", 10)
    if isinstance(backoff, int) and backoff >= wanted.unclaimed_after_s:
        yield (
            wrong,
            f"podMaxBackoffSeconds is {backoff}, and limits.unclaimedAfter {wanted.unclaimed_after_s:g} s: grants are "
            "given back before kube-scheduler asks for them",
            "keep it below limits.unclaimedAfter; 60 is shipped",
        )
    election = _map(document.get("leaderElection"))
    elects, lease = election.get("leaderElect", True), election.get("resourceName", "kube-scheduler")
    if elects and lease == "kube-scheduler" and election.get("resourceNamespace", "kube-system") == "kube-system":
        yield (
            wrong,
            "leaderElection.resourceName is kube-scheduler, the Lease of the cluster's own: only one of the two works",
            "leaderElection: {resourceName: slurm-scheduler, resourceNamespace: slurm-extender}",
        )


def _list(document: Json, key: str) -> Sequence[Any]:
    found = document.get(key)
    return found if isinstance(found, list) else ()


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _split(url: Any) -> SplitResult:
    """The parts of an address; none of one that is none."""
    try:
        return urlsplit(str(url))
    except ValueError:
        return urlsplit("")
