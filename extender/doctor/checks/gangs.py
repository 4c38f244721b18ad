"""Check everything that gangs need: nodes with a working fence, and PodGroups that can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from extender.config.jobs import UnfencedGangs
from extender.doctor.checks.kubernetes import fence_facts
from extender.doctor.facts import Facts, ServedPodGroups
from extender.doctor.finding import Finding, error, ok, warning
from extender.doctor.registry import CheckGroup
from extender.domain.gangs.membership import GangSource
from extender.domain.gangs.pod_groups import POD_GROUP_KINDS, PodGroupApi
from extender.domain.gangs.recognition import group_of

check = CheckGroup()

SMALLEST = 2
"""Members of the smallest gang."""

_NAME = "gangs"


def _fences(facts: Facts) -> tuple[Sequence[str], Collection[str], str, UnfencedGangs] | None:
    found = fence_facts(facts)
    return None if found is None else (*found, facts.config.gangs.unfenced)


@check(needs=_fences)
def fenced_nodes(
    slurm_nodes: Sequence[str], proven: Collection[str], unverified: str, unfenced: UnfencedGangs
) -> Iterator[Finding]:
    """Say how large a gang can be, since a gang gets nodes with a working fence alone.

    `unverified`: why the proofs of fences were not verified; "": they were.
    """
    a_fence = "an annotation of a working fence" if unverified else "a working fence"
    if len(slurm_nodes) < SMALLEST:
        return
    count = sum(name in proven for name in slurm_nodes)
    if unfenced is UnfencedGangs.ALLOW:
        if count < len(slurm_nodes):
            yield warning(
                _NAME,
                f"gangs.unfenced is allow, and {len(slurm_nodes) - count} of {len(slurm_nodes)} Slurm nodes have no "
                "working fence: Slurm may start the next job while a Pod of a gang still ends there",
                "install the fence script on every node that gangs may get (docs/fences.md), then set gangs.unfenced: "
                "refuse",
            )
        else:
            yield ok(_NAME, f"each of {count} Slurm nodes has {a_fence}")
    elif count < SMALLEST:
        yield warning(
            _NAME,
            f"{count} of {len(slurm_nodes)} Slurm nodes have a working fence, and a gang needs one for each member: "
            "every gang waits",
            "install the fence script and let a placeholder job end on each node (docs/fences.md), or set "
            "gangs.unfenced: allow",
        )
    else:
        yield ok(_NAME, f"gangs of up to {count} members find nodes with {a_fence}")


def _pod_groups(
    facts: Facts,
) -> tuple[Sequence[ServedPodGroups], Collection[PodGroupApi], Mapping[GangSource, int], str] | None:
    served = facts.kube.pod_groups
    if served is None:
        return None
    scheduler = facts.config.scheduler.name
    named = Counter(
        group.source
        for pod in facts.kube.pods or ()
        if pod.scheduler_name == scheduler and not pod.ended and (group := group_of(pod)) is not None
    )
    return served, facts.config.gangs.pod_groups, named, facts.kube.account


@check(needs=_pod_groups)
def pod_groups(
    served: Sequence[ServedPodGroups],
    read: Collection[PodGroupApi],
    named: Mapping[GangSource, int],
    account: str,
) -> Iterator[Finding]:
    """Judge the kinds of PodGroups that are served. `read`: those that the configuration names; `named`: by Pods."""
    sources = {kind.api: kind.source for kind in POD_GROUP_KINDS}
    for one in served:
        pods = named.get(sources[one.api], 0)
        if one.api in read and one.served and one.may is False:
            yield error(
                _NAME,
                f"gangs.podGroups names {one.api}, and {account} may not list and watch podgroups.{one.api}: Pods that "
                "name one wait",
                "apply the component pod-groups (docs/reference/rights.md)",
            )
        elif one.api in read and not one.served and pods:
            yield warning(
                _NAME,
                f"{pods} Pods name a PodGroup of {one.api}, which the API server does not serve: they wait",
                "install its CustomResourceDefinitions, or enable the API of Kubernetes",
            )
        elif one.api not in read and pods:
            yield warning(
                _NAME,
                f"{pods} Pods name a PodGroup of {one.api}, which is not read: they are placed one by one, unless a "
                "controller makes them a gang",
                f"add {one.api} to gangs.podGroups, and apply the component pod-groups",
            )
        elif one.api is PodGroupApi.KUBERNETES and not one.served:
            yield _dropped(read=one.api in read)
        elif one.api in read and one.served:
            yield ok(_NAME, f"PodGroups of {one.api} are served and read")


def _dropped(*, read: bool) -> Finding:
    """Say that kube-apiserver removes the name of a PodGroup from Pods (`dropDisabledSchedulingGroup`).

    kube-apiserver serves these PodGroups only with the feature gate that keeps the field.
    """
    seen = (
        f"the API server does not serve PodGroups of {PodGroupApi.KUBERNETES}. It drops spec.schedulingGroup of Pods, "
        "unless its feature gate GenericWorkload is on: such Pods are placed one by one"
    )
    if not read:
        return ok(_NAME, seen)
    return warning(
        _NAME,
        seen,
        "start kube-apiserver with --feature-gates=GenericWorkload=true, and --runtime-config for the API, or remove "
        f"{PodGroupApi.KUBERNETES} from gangs.podGroups",
    )
