"""What other rooms get of the configuration, in their own words."""

from __future__ import annotations

from collections.abc import Mapping

from extender.config.document import ExtenderConfiguration
from extender.config.foreign_pods import ForeignPodsMode
from extender.domain.foreign_pods.foreign_pod import ForeignPodPolicy
from extender.domain.jobs.job import RunAs
from extender.domain.nodes.external_nodes import ExternalRules, FeatureRule, SettleDelays, TopologyRule
from extender.domain.nodes.mapping import Pairing
from extender.domain.nodes.marks import MarkRules, owner_of_marks
from extender.domain.nodes.slurmds import SlurmdSelector
from extender.domain.placeholder import Timing
from extender.domain.policy.named import Nameable
from extender.domain.policy.site import TranslationPolicy
from extender.domain.rules import MassDeletionLimits
from extender.engine.mass_deletion_guard import GuardOptions

ROOT = RunAs(0, 0)
"""The same on every system."""


def translation_policy(configuration: ExtenderConfiguration) -> TranslationPolicy:
    """The site's decisions about the translation of Pods."""
    jobs, slurm = configuration.jobs, configuration.slurm
    namespaces = configuration.scope.namespaces
    return TranslationPolicy(
        namespaces=None if namespaces is None else frozenset(namespaces),
        gres_rules=tuple(line.rule() for line in jobs.gres),
        gpu_type_labels=jobs.gpu_type_labels,
        gpu_types=jobs.gpu_types,
        allowed=frozenset(str(key) for key in jobs.allow),
        users={user.name: RunAs(user.uid, user.gid) for user in slurm.users},
        groups={group.name: group.gid for group in slurm.groups},
        caller=owner_of_token(configuration),
        sunk_timeout_unit=jobs.sunk_timeout_unit,
        defaults=jobs.defaults,
        namespace_defaults=jobs.namespace_defaults,
        refuse_pinned=jobs.refuse_pinned_cpus,
        nameable=Nameable(
            partitions=jobs.partitions,
            accounts=jobs.accounts,
            qos=jobs.qos,
            reservations=jobs.reservations,
            mcs_labels=jobs.mcs_labels,
        ),
        under_accounting=jobs.under_accounting,
        max_pod_grace_s=int(configuration.limits.max_pod_grace),
        strict_grace=jobs.strict_grace,
        kill_wait_s=int(slurm.kill_wait),
    )


def owner_of_token(configuration: ExtenderConfiguration) -> RunAs | None:
    """In whose name every request is sent, `None` where the site did not say his numbers."""
    slurm = configuration.slurm
    users = {user.name: RunAs(user.uid, user.gid) for user in slurm.users}
    return users.get(slurm.user, ROOT if slurm.user == "root" else None)


def timing(configuration: ExtenderConfiguration) -> Timing:
    """The waits of a placeholder's life."""
    limits, kill_wait = configuration.limits, configuration.slurm.kill_wait
    return Timing(
        settle=limits.settle,
        settle_at_start=limits.settle_at_start,
        retry_first=limits.retry_first,
        retry_most=limits.retry_most,
        eviction_deadline=kill_wait if limits.eviction_deadline is None else limits.eviction_deadline,
        kill_wait=kill_wait,
        refused_by_scheduler=limits.refused_after,
        unclaimed=limits.unclaimed_after,
        forget=limits.forget,
    )


def foreign_pod_policy(configuration: ExtenderConfiguration) -> ForeignPodPolicy | None:
    """Which Pods Slurm holds something for although it did not place them; `None`: none."""
    given = configuration.foreign_pods
    if given.mode is ForeignPodsMode.OFF:
        return None
    return ForeignPodPolicy(
        translation=translation_policy(configuration),
        schedulers=frozenset({configuration.scheduler.name}),
        ignored=tuple(one.rule for one in given.ignore),
        daemons=given.daemons,
    )


def slurmd_selector(configuration: ExtenderConfiguration) -> SlurmdSelector:
    """Which Pods run a slurmd."""
    given = configuration.nodes.slurmd_pods
    return SlurmdSelector() if given is None else SlurmdSelector(given.labels, given.namespace or "")


def external_rules(configuration: ExtenderConfiguration) -> ExternalRules:
    """Which Nodes are registered in Slurm, and as what."""
    given = configuration.nodes.external
    if given is None:
        return ExternalRules()
    return ExternalRules(
        selector=given.selector.selector,
        node_sets=given.node_sets,
        features=tuple(FeatureRule(one.label, one.feature, one.value, one.node_set) for one in given.features),
        topologies=tuple(TopologyRule(one.topology, one.labels, one.under or "") for one in given.topology),
        translation=translation_policy(configuration),
        schedulers=frozenset({configuration.scheduler.name}),
        remove=given.remove,
    )


def patience(configuration: ExtenderConfiguration) -> SettleDelays:
    """How long a Node must differ before its node in Slurm is emptied."""
    given = configuration.nodes.external
    return SettleDelays() if given is None else SettleDelays(given.settle)


def pairing(configuration: ExtenderConfiguration) -> Pairing:
    """What says which Node is which Slurm node."""
    given = configuration.nodes
    by_name = given.slurmd_pods is None if given.by_name is None else given.by_name
    return Pairing(by_name, given.restricted_label_only)


def mark_rules(configuration: ExtenderConfiguration, drainer: str) -> MarkRules:
    """What is written on Nodes. `drainer`: what tells our drains from others'."""
    nodes = configuration.nodes
    return MarkRules(
        owner=owner_of_marks(configuration.scheduler.name, drainer),
        taint=nodes.mark.taint or "",
        cordon=nodes.mark.cordon,
        managed=nodes.taint or "",
        lock=nodes.lock or "",
    )


def guard_options(configuration: ExtenderConfiguration) -> GuardOptions:
    """Return what the mass-deletion guard decides by."""
    given, orphans = configuration.limits.brake, configuration.orphans
    limits = MassDeletionLimits(least=given.least, share=given.share, window=given.window)
    return GuardOptions(limits, orphans.grace, orphans.many_grace, orphans.dry_run)


def traces_wanted(configuration: ExtenderConfiguration, environ: Mapping[str, str]) -> bool:
    """Whether an endpoint is configured, by us or as every program with OpenTelemetry is told one."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    said = (environ.get(f"OTEL_EXPORTER_OTLP_{which}ENDPOINT") for which in ("", "TRACES_"))
    return configuration.observability.traces_endpoint is not None or any(said)
