"""Check the API server, the rights of the extender's account, scheduling gates, leaders and the mapping of nodes."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from extender.config.kubernetes import Scope
from extender.doctor.checks.slurm import clock
from extender.doctor.facts import AdmissionObjects, Facts, Json, Leader, Right, Server
from extender.doctor.finding import Finding, error, ok, skipped, warning
from extender.doctor.registry import CheckGroup
from extender.domain.nodes.mapping import NodeMap, map_nodes
from extender.domain.nodes.slurmds import slurmd_nodes
from extender.domain.printable import shortened
from extender.domain.wellknown import GATE, OPT_IN_LABEL

check = CheckGroup()

OLDEST, NEWEST = (1, 32), (1, 37)
"""README.md says what the oldest version needs; the newest has a component of the manifests."""

ROUTE = "/admission/mutate"
"""The path of the extender's webhook."""

_ONE_NAME = re.compile(r"object\.spec\.schedulerName\s*==\s*['\"]([^'\"]+)['\"]")

_LISTED = 5
"""Names of Slurm nodes in a line; the rest is counted."""

NODE_LEASES = "kube-node-lease"
OWN = "{namespace}"
"""Stands for the namespace of the extender, and `{lease}` for the name of its Lease."""


def _rights(
    group: str, resources: str, verbs: str, purpose: str, *, namespace: str = "", name: str = ""
) -> Iterator[Right]:
    for resource in resources.split():
        for verb in verbs.split():
            yield Right(verb, group, resource, purpose, namespace, name)


_OWNERS = "annotations on a Pod's owners are not read"

RIGHTS: tuple[Right, ...] = (
    *_rights("", "pods", "get list watch", "no Pod is known"),
    *_rights("", "pods", "patch", "no grant is written, and no gate removed"),
    *_rights("", "pods", "delete", "no Pod is ended with its job"),
    *_rights("", "pods/status", "patch", "a Pod that is ended does not show why"),
    *_rights("", "pods/binding", "create", "no Pod is bound"),
    *_rights("", "pods/eviction", "create", "no Pod is ended within its disruption budget"),
    *_rights("", "nodes", "get list watch", "no Node is known"),
    *_rights("", "nodes", "patch", "Nodes get no annotation, taint or cordon"),
    *_rights("", "nodes/status", "patch", "Nodes get no condition"),
    *_rights(
        "", "namespaces", "get", "the identity of the cluster is not known, so nothing starts", name="kube-system"
    ),
    *_rights("", "namespaces", "list watch", "a policy cannot select by labels of Namespaces"),
    *_rights("resource.k8s.io", "deviceclasses", "list watch", "extended resources of DeviceClasses are not known"),
    *_rights("events.k8s.io", "events", "create patch", "no Event is written"),
    *_rights("", "replicationcontrollers", "get", _OWNERS),
    *_rights("apps", "daemonsets deployments replicasets statefulsets", "get", _OWNERS),
    *_rights("batch", "cronjobs jobs", "get", _OWNERS),
    *_rights("jobset.x-k8s.io", "jobsets", "get", _OWNERS),
    *_rights("leaderworkerset.x-k8s.io", "leaderworkersets", "get", _OWNERS),
    *_rights("coordination.k8s.io", "leases", "create", "replicas elect no leader", namespace=OWN),
    *_rights("coordination.k8s.io", "leases", "get update", "replicas elect no leader", namespace=OWN, name="{lease}"),
    *_rights(
        "coordination.k8s.io",
        "leases",
        "get patch",
        "after an outage jobs of deleted Pods end late",
        namespace=OWN,
        name="{lease}-checkpoints",
    ),
    *_rights("coordination.k8s.io", "leases", "get", "Nodes stay held for longer", namespace=NODE_LEASES),
)
"""Every verb of the shipped ClusterRole and Roles, and what fails without it."""

_OF_THE_CLUSTER = frozenset({"nodes", "nodes/status", "namespaces", "deviceclasses"})
_READING = frozenset({"get", "list", "watch"})


def rights_in(scope: Scope) -> tuple[Right, ...]:
    """Return the rights where only some namespaces are served: there Roles allow what is written in namespaces.

    Pods are read everywhere, unless the site wants less: those of others take room on the same Nodes.
    """
    namespaces = scope.namespaces
    if namespaces is None:
        return RIGHTS
    found: list[Right] = []
    for right in RIGHTS:
        reads_pods = right.resource == "pods" and right.verb in _READING and scope.read_namespaces is None
        everywhere = right.resource in _OF_THE_CLUSTER or reads_pods
        if right.namespace or everywhere:
            found.append(right)
        else:
            found += [replace(right, namespace=name) for name in namespaces]
    return tuple(found)


@check(needs=lambda facts: (facts.kube.server,))
def server(api_server: Server) -> Iterator[Finding]:
    """Judge the version of the API server."""
    if api_server.error:
        yield error(
            "kubernetes",
            api_server.error,
            "check kubernetes.kubeconfig; remove it in a Pod, so that the extender uses its ServiceAccount",
        )
        return
    found = re.match(r"v?(\d+)\.(\d+)", api_server.version)
    seen = (
        f"{api_server.url}: {api_server.version or 'no version'}{f', as {api_server.user}' if api_server.user else ''}"
    )
    release = (int(found[1]), int(found[2])) if found else None
    if release is None:
        yield warning("kubernetes", seen, "see `kubectl version`; 1.32 to 1.37 are supported")
    elif release < OLDEST:
        yield error("kubernetes", seen, "upgrade to Kubernetes 1.32 or newer")
    elif release > NEWEST:
        yield warning(
            "kubernetes", f"{seen}: newer than the tested versions", "look for a newer version of the extender"
        )
    elif release < (1, 33):
        yield ok("kubernetes", f"{seen}; its kube-scheduler needs components/kubernetes-1.32 of the manifests")
    else:
        yield ok("kubernetes", seen)


@check(needs=lambda facts: None if facts.kube.server.error else ("the API server", facts.kube.ahead_s))
def kubernetes_clock(whose: str, ahead_s: float | None) -> Iterator[Finding]:
    """Compare the API server's clock with this machine's."""
    yield from clock(whose, ahead_s)


@check(
    needs=lambda facts: None if facts.kube.server.error else (facts.kube.may, facts.kube.account, facts.kube.why_not)
)
def rights(may: Mapping[Right, bool] | None, account: str, why: str) -> Iterator[Finding]:
    """Name the rights that an account lacks. `may`: the API server's answers; `None`: none, for the reason `why`."""
    if may is None:
        how = "run it as a user who may create SubjectAccessReviews, or in the extender's Pod"
        yield skipped("rights", f"of {account}: {why}", how)
        return
    denied: dict[str, list[str]] = defaultdict(list)
    for right, allowed in may.items():
        if not allowed:
            denied[right.purpose].append(str(right))
    for purpose, missing in denied.items():
        advice = "apply manifests/core/rbac-extender.yaml again"
        yield error("rights", f"{account} may not {', '.join(missing)}: {purpose}", advice)
    if not denied:
        yield ok("rights", f"{account} has all {len(may)} rights that it needs")


@check(
    needs=lambda facts: None if facts.config.scope.read_namespaces is None else (facts.config.scope.read_namespaces,)
)
def scope(namespaces: Sequence[str]) -> Iterator[Finding]:
    """Name the cost of reading the Pods of some namespaces only."""
    yield warning(
        "scope",
        f"only the Pods of {shortened(namespaces, _LISTED)} are read: Pods of other namespaces on a Node are not "
        "counted, and a placed Pod can fail there for lack of room",
        "keep other Pods off these Nodes by a taint, or set scope.readPods: all (docs/reference/rights.md)",
    )


@check(
    needs=lambda facts: (
        None
        if facts.kube.server.error
        else (facts.kube.admission, facts.config.scheduler.name, facts.config.admission.bind is not None)
    )
)
def gates(objects: AdmissionObjects, scheduler: str, webhook_served: bool) -> Iterator[Finding]:
    """Check what adds the scheduling gate to new Pods. `webhook_served`: the configuration has admission.bind."""
    texts = [(one, json.dumps(one, default=str)) for one in objects.policies or ()]
    # The policy that puts Namespaces on Slurm is about Pods of no scheduler yet.
    policies = [one for one, text in texts if GATE in text and OPT_IN_LABEL not in text]
    hooks = [hook for one in objects.webhooks or () for hook in one.get("webhooks") or () if _path(hook) == ROUTE]
    for one in policies:
        yield from _policy(one, objects.bindings, scheduler)
    for hook in hooks:
        yield from _webhook(hook, scheduler, webhook_served)
    if policies or hooks:
        return
    if objects.policies is None or objects.webhooks is None:
        yield skipped(
            "gates",
            "no access to MutatingAdmissionPolicies and MutatingWebhookConfigurations",
            "`kubectl get mutatingadmissionpolicies,mutatingwebhookconfigurations` as an administrator",
        )
    else:
        yield warning(
            "gates",
            f"nothing adds the gate {GATE} to Pods: kube-scheduler retries each waiting Pod again and again",
            "apply manifests/components/gate-policy (Kubernetes 1.36 and newer) or components/gate-webhook",
        )


def _policy(one: Json, bindings: Sequence[Json] | None, scheduler: str) -> Iterator[Finding]:
    name = str(one.get("metadata", {}).get("name", ""))
    subject = f"MutatingAdmissionPolicy {name}"
    if bindings is not None and not any(each.get("spec", {}).get("policyName") == name for each in bindings):
        advice = "apply the whole component: without the binding the policy has no effect"
        yield error("gates", f"{subject} has no MutatingAdmissionPolicyBinding", advice)
        return
    yield from _conditions(subject, one.get("spec", {}).get("matchConditions") or (), scheduler)


def _webhook(hook: Json, scheduler: str, served: bool) -> Iterator[Finding]:
    subject = f"webhook {hook.get('name', '')}"
    if not served:
        advice = "set admission.bind, or delete the webhook"
        yield error("gates", f"{subject} calls {ROUTE}, and admission.bind is not set: nothing answers", advice)
        return
    if not hook.get("clientConfig", {}).get("caBundle"):
        yield error(
            "gates",
            f"{subject} has no caBundle: the API server rejects the extender's certificate, and Pods get no gate",
            "write the authority of admission.tls there; cert-manager does so by its annotation inject-ca-from",
        )
        return
    if hook.get("failurePolicy") == "Fail":
        seen = f"{subject} has failurePolicy Fail: without a running extender no Pod can be created"
        yield warning("gates", seen, "set failurePolicy: Ignore")
    yield from _conditions(subject, hook.get("matchConditions") or (), scheduler)


def _conditions(subject: str, conditions: Sequence[Json], scheduler: str) -> Iterator[Finding]:
    expressions = [str(each.get("expression", "")).strip() for each in conditions]
    about = [text for text in expressions if "schedulerName" in text]
    names = {found[1] for text in about if (found := _ONE_NAME.fullmatch(text))}
    unreadable = [text for text in about if not _ONE_NAME.fullmatch(text)]
    if unreadable:
        yield skipped(
            "gates",
            f"{subject} has the condition {unreadable[0]}, which the doctor cannot evaluate",
            f"create a Pod of {scheduler}, and check whether {GATE} is in its spec.schedulingGates",
        )
    elif names and names != {scheduler}:
        yield error(
            "gates",
            f"{subject} is for Pods of {', '.join(sorted(names))}, and scheduler.name is {scheduler}",
            f"write {scheduler} into its matchConditions",
        )
    else:
        yield ok("gates", f"{subject} adds {GATE} to Pods of {scheduler}")


def _path(hook: Json) -> str:
    client = hook.get("clientConfig") or {}
    service = client.get("service") or {}
    url = str(client.get("url") or "")
    return str(service.get("path") or "") if service else "/" + url.split("://", 1)[-1].partition("/")[2]


def _leader_facts(facts: Facts) -> tuple[Sequence[Leader] | None, str, str] | None:
    election = facts.config.leader_election
    own = f"{election.namespace}/{election.lease_name}"
    return None if facts.kube.server.error else (facts.kube.leaders, facts.config.scheduler.name, own)


@check(needs=_leader_facts)
def leaders(found: Sequence[Leader] | None, scheduler: str, own: str) -> Iterator[Finding]:
    """Find a second extender with this scheduler name. `own` is the configured Lease; `found` `None`: no access."""
    if found is None:
        how = "`kubectl get leases -A` as an administrator: each extender holds one"
        yield skipped("extenders", f"no access to Leases, so other extenders for {scheduler} are not known", how)
        return
    by_lease: dict[str, str] = {}
    for one in found:
        if one.alive and one.scheduler == scheduler:
            by_lease.setdefault(one.lease, one.holder)
    if len(by_lease) > 1:
        names = "; ".join(f"{lease} held by {holder}" for lease, holder in sorted(by_lease.items()))
        yield error(
            "extenders",
            f"{len(by_lease)} extenders lead for {scheduler} at the same time: {names}",
            "each ends the jobs and Pods of the other: give one of them another scheduler.name, or let both use the "
            "same Lease (leaderElection.namespace, leaseName)",
        )
    elif by_lease:
        [(lease, holder)] = by_lease.items()
        yield ok("extenders", f"{holder} leads for {scheduler}, by {lease}")
    else:
        how = f"with leaderElection.enabled it is {own}; a single process has none"
        yield skipped("extenders", f"no Lease names an extender for {scheduler}", how)


def mapped_nodes(facts: Facts) -> NodeMap | None:
    """Return which Node is which Slurm node; `None`: not known."""
    slurm, known = facts.slurm.snapshot, facts.kube.nodes
    if facts.kube.server.error or not slurm.known or known is None:
        return None
    selector = facts.config.nodes.slurmd_selector
    slurmds = slurmd_nodes(pod for pod in facts.kube.pods or () if selector.selects(pod))
    return map_nodes(known, slurm, slurmds, pairing=facts.config.nodes.pairing)


def _node_facts(facts: Facts) -> tuple[NodeMap, int, int] | None:
    found = mapped_nodes(facts)
    return None if found is None else (found, len(facts.kube.nodes or ()), len(facts.slurm.snapshot.nodes))


@check(needs=_node_facts)
def nodes(found: NodeMap, kubernetes: int, slurm: int) -> Iterator[Finding]:
    """Judge the mapping of Nodes to Slurm nodes. `kubernetes` and `slurm` count the nodes of each."""
    for problem in found.problems:
        yield error("nodes", problem, "fix the label slurm-extender.io/slurm-node; until then no Pod is placed there")
    if not found.kubernetes:
        yield error(
            "nodes",
            f"none of {kubernetes} Nodes is one of {slurm} Slurm nodes",
            "label Nodes slurm-extender.io/slurm-node=NAME with their name in Slurm, or see nodes.slurmdPods, "
            "nodes.byName and nodes.external (docs/nodes.md)",
        )
        return
    pairs = f"{len(found.kubernetes)} pairs of {kubernetes} Nodes and {slurm} Slurm nodes"
    missing = found.without_kubernetes
    if missing and len(missing) >= len(found.kubernetes):
        yield warning(
            "nodes",
            f"{pairs}; without a Node: {shortened(missing, _LISTED)}",
            "jobs are kept off those; if they are Nodes, label them with slurm-extender.io/slurm-node",
        )
    else:
        yield ok("nodes", pairs)


def fence_facts(facts: Facts) -> tuple[tuple[str, ...], frozenset[str], str] | None:
    """Return the Slurm nodes that are Nodes, those of them with evidence of a fence, and why no proof is verified.

    `None`: not known.
    """
    mapped, reader = mapped_nodes(facts), facts.fence_reader
    if mapped is None or reader is None:
        return None
    pairs, nodes = mapped.kubernetes, {node.name: node for node in facts.kube.nodes or ()}
    external = {name for name, node in facts.slurm.snapshot.nodes.items() if node.external}
    proven = reader.proven(pairs, nodes, external, facts.now + (facts.kube.ahead_s or 0.0))
    return tuple(sorted(pairs)), proven, reader.trouble


@check(needs=fence_facts)
def fences(slurm_nodes: Sequence[str], proven: Collection[str], unverified: str) -> Iterator[Finding]:
    """Say which Slurm nodes have no working fence.

    `proven`: those whose Node bears evidence of it. `unverified`: why the proofs were not verified; "": they were.
    """
    unfenced = [name for name in slurm_nodes if name not in proven]
    if unfenced:
        yield warning(
            "fences",
            f"no Node shows a call of the fence script within fences.evidence for {len(unfenced)} of "
            f"{len(slurm_nodes)} Slurm nodes: {shortened(unfenced, _LISTED)}; jobs that may get them are "
            "batch jobs, and on nodes without slurmd nothing holds the next job",
            "install the output of `slurm-extender generate fence-script`, as PrologSlurmctld for nodes without "
            "slurmd; it calls after each placeholder job",
        )
    elif slurm_nodes and unverified:
        yield ok(
            "fences",
            f"each of {len(slurm_nodes)} Slurm nodes has an annotation of the fence script; its proof was not "
            f"verified: {unverified}",
        )
    elif slurm_nodes:
        yield ok("fences", f"the fence script has called for each of {len(slurm_nodes)} Slurm nodes")
