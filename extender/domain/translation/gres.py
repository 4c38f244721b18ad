"""Maps extended resources of Kubernetes to GRES and licences of Slurm, and finds the GPU type of a Pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.domain.pods.requests import HUGEPAGES_PREFIX
from extender.domain.policy.site import LICENSE, NOT_IN_SLURM, TranslationPolicy, is_gres
from extender.domain.quantity import whole_up
from extender.domain.translation.notice import Notice
from extender.domain.views import NodeTerm, PodView
from extender.domain.wellknown import Reason

GPU = "gpu"
"""The GRES that a GPU type is added to."""

_COUNT = re.compile(r"[:=]([0-9]+)([KMGTP]?)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GresReading:
    """GRES name, with its type if one was named by the map -> count; licences likewise."""

    gres: Mapping[str, int] = field(default_factory=dict)
    licenses: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()
    unknown: tuple[str, ...] = ()
    """The beginning of a sentence for each resource that no line of the map names, without what follows from it."""


@dataclass(frozen=True, slots=True)
class GpuType:
    """Slurm's type of GPU; "" where none or more than one would do: the candidate nodes restrict the choice then."""

    name: str = ""
    notices: tuple[Notice, ...] = ()


def to_gres(requests: Mapping[str, int], policy: TranslationPolicy) -> GresReading:
    """Return the GRES and licences for effective requests, or for the resources of a Node, in billionths."""
    gres: dict[str, int] = {}
    licenses: dict[str, int] = {}
    faults: list[str] = []
    notices: list[Notice] = []
    unknown: list[str] = []
    for resource in sorted(requests):
        count = whole_up(requests[resource])
        if count <= 0:
            continue
        if resource.startswith(HUGEPAGES_PREFIX):
            sentence = f"{resource}: Slurm does not account for huge pages"
            notices.append(Notice(Reason.NOT_ACCOUNTED_BY_SLURM, sentence))
            continue
        if "/" not in resource:
            continue
        found = next(((rule, name) for rule in policy.gres_rules if (name := rule.match(resource)) is not None), None)
        if found is None:
            unknown.append(f"{resource}: no line of the site's GRES map (jobs.gres) names it")
            continue
        rule, name = found
        if name == NOT_IN_SLURM:
            sentence = f"{resource}: the site's GRES map has no GRES for it, so Slurm does not account for it"
            notices.append(Notice(Reason.NOT_ACCOUNTED_BY_SLURM, sentence))
        elif not is_gres(name):
            faults.append(
                f"{resource}: the site's GRES map ({rule.resource}: {rule.gres}) converts it to {name!r}, which is no "
                f"valid name in Slurm; add a line for it to the map"
            )
        elif name.startswith(LICENSE):
            name = name.removeprefix(LICENSE)
            licenses[name] = licenses.get(name, 0) + count * rule.each
        else:
            gres[name] = gres.get(name, 0) + count * rule.each
    return GresReading(gres, licenses, tuple(faults), tuple(notices), tuple(unknown))


def with_type(gres: Mapping[str, int], gpu_type: str) -> dict[str, int]:
    """Return the same GRES with untyped GPUs turned into GPUs of that type; unchanged for ""."""
    typed: dict[str, int] = {}
    for name, count in gres.items():
        full = f"{GPU}:{gpu_type}" if gpu_type and name == GPU else name
        typed[full] = typed.get(full, 0) + count
    return typed


def requested_gres(tres: str) -> dict[str, int]:
    """Return the count by name and, if given, type of `gres/gpu:a100:2,gres/shard`; a missing count is 1."""
    counts: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in tres.split(","))):
        body = re.sub("^gres[/:]", "", item)
        found = _COUNT.search(body)
        count = int(found[1]) * 1024 ** " KMGTP".index(found[2].upper() or " ") if found else 1
        name = body[: found.start()] if found else body
        counts[name] = counts.get(name, 0) + count
    return counts


def by_name(gres: Mapping[str, int]) -> dict[str, int]:
    """Return the counts by name, types added up."""
    counts: dict[str, int] = {}
    for full, count in gres.items():
        name = full.partition(":")[0]
        counts[name] = counts.get(name, 0) + count
    return counts


def gpu_type(pod: PodView, policy: TranslationPolicy) -> GpuType:
    """Return the GPU type that the Pod's node selector and required node affinity allow, if it is exactly one.

    A label value without a type in the site's map leaves the GPUs untyped: the labels still restrict the candidates, so
    the Pod gets what it asked for. Where the map is not empty a notice says so, as a type may have been meant.
    """
    terms = pod.required_terms if pod.required_terms is not None else (NodeTerm(),)
    wanted: set[str] | None = set()
    notices: list[Notice] = []
    for term in terms:
        types = _types_of(term, pod.node_selector, policy, notices)
        wanted = None if wanted is None or types is None else wanted | types
    return GpuType(next(iter(wanted)) if wanted is not None and len(wanted) == 1 else "", tuple(dict.fromkeys(notices)))


def _types_of(
    term: NodeTerm, selector: Mapping[str, str], policy: TranslationPolicy, notices: list[Notice]
) -> set[str] | None:
    """Return the types that one term allows together with the node selector; `None`: any."""
    types: set[str] | None = None
    for label in policy.gpu_type_labels:
        allowed = [set(e.values) for e in term.expressions if e.key == label and e.operator == "In"]
        if label in selector:
            allowed.append({selector[label]})
        if not allowed:
            continue
        values = set.intersection(*allowed)
        unknown = sorted(value for value in values if value not in policy.gpu_types)
        if unknown:
            if policy.gpu_types:
                known = ", ".join(sorted(policy.gpu_types))
                for value in unknown:
                    sentence = (
                        f"{label}: {value} has no GPU type in the site's map ({known}); the job requests any type"
                    )
                    notices.append(Notice(Reason.UNKNOWN_GPU_TYPE, sentence))
            continue
        named = {policy.gpu_types[value] for value in values}
        types = named if types is None else types & named
    return types
