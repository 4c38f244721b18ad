"""Derives values of other packages from several groups of the configuration."""

from __future__ import annotations

from extender.config.document import ExtenderConfiguration
from extender.config.kubernetes import ForeignPodsMode
from extender.domain.foreign_pods.foreign_pod import ForeignPodPolicy
from extender.domain.gangs.bind_calls import BindCalls
from extender.domain.jobs.job import RunAs
from extender.domain.nodes.external_nodes import ExternalRules, TopologyRule
from extender.domain.nodes.marks import MarkRules, owner_of_marks
from extender.domain.placeholder import Timing
from extender.domain.pods.requests import CLASS_RESOURCE
from extender.domain.policy.named import Nameable
from extender.domain.policy.site import GresRule, TranslationPolicy
from extender.engine.mass_deletion_guard import MassDeletionGuardOptions, MassDeletionLimits


def translation_policy(configuration: ExtenderConfiguration) -> TranslationPolicy:
    """Return the decisions of the site about the translation of Pods."""
    jobs, slurm = configuration.jobs, configuration.slurm
    namespaces = configuration.scope.namespaces
    return TranslationPolicy(
        namespaces=None if namespaces is None else frozenset(namespaces),
        gres_rules=(*_class_rules(configuration), *(line.rule() for line in jobs.gres)),
        gpu_type_labels=jobs.gpu_type_labels,
        gpu_types=jobs.gpu_types,
        allowed=frozenset(str(key) for key in jobs.allow),
        users={user.name: RunAs(user.uid, user.gid) for user in slurm.users},
        groups={group.name: group.gid for group in slurm.groups},
        caller=slurm.caller,
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
        unknown_resources=jobs.unknown_resources,
        missing_requests=jobs.missing_requests,
        max_pod_grace_s=int(configuration.limits.max_pod_grace),
        strict_grace=jobs.strict_grace,
        kill_wait_s=int(slurm.kill_wait),
    )


def _class_rules(configuration: ExtenderConfiguration) -> tuple[GresRule, ...]:
    """Return the GRES of the resources that name a DeviceClass of the map of devices."""
    return tuple(
        GresRule(f"{CLASS_RESOURCE}{name}", line.gres) for line in configuration.devices for name in line.device_classes
    )


def timing(configuration: ExtenderConfiguration) -> Timing:
    """Return the waits in the life of a placeholder job."""
    limits, retry, kill_wait = configuration.limits, configuration.retry, configuration.slurm.kill_wait
    return Timing(
        settle=limits.submit_confirmation_timeout,
        settle_at_start=limits.submit_confirmation_timeout_on_start,
        retry_first=retry.initial_backoff,
        retry_most=retry.max_backoff,
        eviction_deadline=kill_wait if limits.eviction_deadline is None else limits.eviction_deadline,
        kill_wait=kill_wait,
        refused_by_scheduler=limits.node_rejected_timeout,
        not_offered=limits.allocation_offer_timeout,
        forget=limits.history_retention,
        replace=configuration.gangs.replace_within,
    )


def bind_calls(configuration: ExtenderConfiguration) -> BindCalls:
    """Return how long calls of `/bind` may be held, and how many: half of the connections are left for `/filter`."""
    return BindCalls(configuration.http.bind_timeout, configuration.http.connections // 2)


def foreign_pod_policy(configuration: ExtenderConfiguration) -> ForeignPodPolicy | None:
    """Return for which foreign Pods Slurm holds resources; `None`: for none."""
    given = configuration.foreign_pods
    if given.mode is ForeignPodsMode.OFF:
        return None
    return ForeignPodPolicy(
        translation=translation_policy(configuration),
        schedulers=frozenset({configuration.scheduler.name}),
        ignored=given.ignore,
        daemons=given.include_daemon_sets,
    )


def external_rules(configuration: ExtenderConfiguration) -> ExternalRules:
    """Return which Nodes are registered in Slurm, and with which properties."""
    given = configuration.nodes.external
    if given is None:
        return ExternalRules()
    return ExternalRules(
        selector=given.selector,
        node_sets=given.node_sets,
        features=given.features,
        topologies=tuple(TopologyRule(one.topology, one.labels, one.under or "") for one in given.topology),
        translation=translation_policy(configuration),
        schedulers=frozenset({configuration.scheduler.name}),
        remove=given.remove,
    )


def mark_rules(configuration: ExtenderConfiguration, drainer: str) -> MarkRules:
    """Return the marks that are written on Nodes. `drainer` identifies the drains of this extender."""
    nodes = configuration.nodes
    return MarkRules(
        owner=owner_of_marks(configuration.scheduler.name, drainer),
        taint=nodes.unavailable_taint.effect or "",
        cordon=nodes.unavailable_cordon,
        managed=nodes.managed_taint.effect or "",
        lock=nodes.native_job_taint.effect or "",
    )


def mass_deletion_guard_options(configuration: ExtenderConfiguration) -> MassDeletionGuardOptions:
    """Return the thresholds of the mass-deletion guard."""
    given, orphans = configuration.mass_deletion_guard, configuration.orphans
    limits = MassDeletionLimits(least=given.min_count, share=given.max_fraction, window=given.window)
    return MassDeletionGuardOptions(limits, orphans.grace_period, orphans.mass_grace_period, orphans.dry_run)
