"""Translates the Pods of one workload into the request for a job.

Precedence for what a job gets: an annotation, then what the Pod's own fields say (its PriorityClass by the site's map),
then whose it is by the policy, the defaults of the rule that speaks of it, those of its namespace, those of the site,
then nothing: Slurm's own defaults hold for all that is not sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from extender.domain.jobs.job import Charge, JobRequest, RunAs
from extender.domain.jobs.time_limit import minutes_for
from extender.domain.policy.job_defaults import JobDefaults
from extender.domain.policy.site import TranslationPolicy
from extender.domain.policy.tenancy import Range, TenancyRule
from extender.domain.renewal import replace
from extender.domain.translation import annotation_table as table
from extender.domain.translation.allowance import PodWishes, beyond, decided, may_have_whole_node, too_long
from extender.domain.translation.annotation_reader import Chosen, read_settings
from extender.domain.translation.forms import Instant, Switches, Unsent
from extender.domain.translation.licenses import Licenses, combined
from extender.domain.translation.names import unlisted
from extender.domain.translation.notice import Notice
from extender.domain.translation.packing import unpackable
from extender.domain.translation.permissions import misnamed, not_allowed, run_as, usurped
from extender.domain.translation.qos import pinned
from extender.domain.translation.size import Size, size_of
from extender.domain.views import PodView

NOT_SERVED = "is not served by this extender"
"""Part of the fault of a Pod in a namespace that `scope.namespaces` lacks."""

MOST_SENTENCES = 20
"""Faults, or notices, of one Pod that are reported: its author decides how many there are."""

MOST_KEYS = 256
"""Annotations, and labels, of a Pod that is served. Each write on a Pod of 10,000 keys takes kube-apiserver 1.36 some
0.2 s, since it merges the managers of each key: such Pods of one tenant would slow the Pods of all others."""


@dataclass(frozen=True, slots=True)
class Translated:
    """The job to ask for. `notices` warn the author of the Pod."""

    request: JobRequest
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class TranslationRefused:
    """All reasons why no job can be asked for, a sentence each."""

    faults: tuple[str, ...]


Translation = Translated | TranslationRefused


_NOTHING: Mapping[str, str] = {}


def translate(
    pods: Sequence[PodView],
    root_annotations: Mapping[str, str],
    policy: TranslationPolicy,
    now_wall: float,
    namespace_labels: Mapping[str, str] = _NOTHING,
    *,
    restricted: Mapping[str, str] = _NOTHING,
    job_deadline_s: int | None = None,
) -> Translation:
    """Return the job for the Pods of a workload, one member each, or all faults at once.

    `root_annotations` are those of the Pods' root owner, `namespace_labels` those of their Namespace, `restricted` the
    partitions that not all users may use, with the reasons, `job_deadline_s` the `activeDeadlineSeconds` of the Job
    above the Pods. `now_wall`,
    seconds since the epoch, only decides whether a deadline has passed, and stands for the creation of Pods that have
    none (read from a file), so that a second submission asks for the same as the first. Raises
    `ValueError` for no Pods.
    """
    if not pods:
        raise ValueError("a workload has at least one Pod")
    if unserved := sorted({pod.namespace for pod in pods if not policy.serves(pod.namespace)}):
        served = ", ".join(sorted(policy.namespaces or ())) or "none"
        return TranslationRefused(tuple(f"namespace {name} {NOT_SERVED}; it serves: {served}" for name in unserved))
    if crowded := tuple(fault for pod in pods for fault in _crowded(pod)):
        return TranslationRefused(_once(crowded))
    readings = [read_settings(pod.annotations, root_annotations, policy) for pod in pods]
    chosen = readings[0].chosen
    rule = policy.pods.rule_for(pods[0], namespace_labels)
    defaults_without_class = defaults_for(pods[0], rule, namespace_labels, policy)
    of_class = policy.pods.class_of(pods[0])
    defaults = defaults_without_class.under(of_class.defaults)
    limit, least, by_site = _time_limit(
        pods, chosen, defaults, None if rule is None else rule.allowed.time_limit, job_deadline_s
    )
    size = size_of(pods, chosen, policy, may_be_whole=may_have_whole_node(rule, chosen, defaults_without_class))
    licenses = _licenses(chosen, defaults, size)
    created = min((pod.created_at for pod in pods if pod.created_at), default=now_wall)
    deadline = chosen.get(table.DEADLINE)
    faults = [
        *(fault for reading in readings for fault in reading.faults),
        *_disagreements(pods, [reading.chosen for reading in readings]),
        *not_allowed(chosen, defaults, policy, decided(rule), "" if rule is None else rule.name),
        *misnamed(chosen, defaults, policy),
        *usurped(policy.pods.owner_for(pods[0], namespace_labels), pods[0], policy),
        *(() if rule is None else beyond(rule, PodWishes(pods[0], chosen, of_class, defaults_without_class), policy)),
        *too_long(rule, least or 0),
        *unlisted(chosen, defaults_without_class, None if rule is None else rule.allowed, policy.nameable, restricted),
        *_out_of_bounds(chosen, len(pods)),
        *(fault for pod in pods for fault in unpackable(pod, chosen, size)),
        *size.faults,
        *licenses.faults,
        *_pinned(pods, policy),
        *_grace(pods, policy),
    ]
    if deadline is not None and deadline.at(created) <= now_wall:
        faults.append(f"{chosen.says(table.DEADLINE)} has passed; it must be in the future")
    if faults:
        return TranslationRefused(_once(faults))
    notices = [*(notice for reading in readings for notice in reading.notices), *size.notices]
    person = _person(chosen, defaults, policy)
    request = replace(_request(pods, chosen, size, defaults, created), run_as=person, licenses=licenses.text)
    request = replace(request, time_limit_minutes=limit, time_limit_least=least, time_limit_by_site=by_site)
    return Translated(request, tuple(dict.fromkeys(notices))[:MOST_SENTENCES])


def charged_to(
    pod: PodView, root_annotations: Mapping[str, str], policy: TranslationPolicy, namespace_labels: Mapping[str, str]
) -> Charge:
    """Return to whom the job of this Pod is charged, also where the Pod would be refused now."""
    chosen = read_settings(pod.annotations, root_annotations, policy).chosen
    rule = policy.pods.rule_for(pod, namespace_labels)
    of_class = policy.pods.class_of(pod).defaults
    defaults = defaults_for(pod, rule, namespace_labels, policy).under(of_class)
    account, qos = (
        default if (own := chosen.get(setting)) is None else own
        for setting, default in (
            (table.ACCOUNT, defaults.get(table.ACCOUNT)),
            (table.QOS, defaults.get(table.QOS)),
        )
    )
    return Charge(_person(chosen, defaults, policy), account or "", qos or "")


def _person(chosen: Chosen, defaults: JobDefaults, policy: TranslationPolicy) -> RunAs | None:
    person = run_as(chosen.get(table.USER_ID), chosen.get(table.GROUP_ID), defaults, policy)
    # `job/allocate` runs as its caller and ignores `user_id` (slurmrestd): so an immediate allocation is possible.
    return None if person == policy.caller else person


def _crowded(pod: PodView) -> Iterator[str]:
    """Yield a fault for each map of the Pod's metadata that has too many keys."""
    for name, found in (("annotations", pod.annotations), ("labels", pod.labels)):
        if len(found) > MOST_KEYS:
            yield f"metadata.{name} has more than {MOST_KEYS} entries; remove some of them"


def defaults_of(namespace: str, policy: TranslationPolicy) -> JobDefaults:
    """Return the defaults of a namespace, completed by those of the site."""
    own = policy.namespace_defaults.get(namespace)
    return policy.defaults if own is None else policy.defaults.under(own)


def defaults_for(
    pod: PodView, rule: TenancyRule | None, namespace_labels: Mapping[str, str], policy: TranslationPolicy
) -> JobDefaults:
    """Return the defaults of the Pod's job, without the values of its PriorityClass."""
    defaults = defaults_of(pod.namespace, policy)
    if rule is not None:
        defaults = defaults.under(rule.defaults)
    owner = policy.pods.owner_for(pod, namespace_labels)
    return defaults if owner is None else defaults.under(owner.defaults(pod))


def title_of(pod: PodView, root_annotations: Mapping[str, str], policy: TranslationPolicy) -> str:
    """Return the readable part of the name of the Pod's job, also where it gets none."""
    return read_settings(pod.annotations, root_annotations, policy).chosen.get(table.JOB_NAME) or pod.full_name


def names_partition(pod: PodView, root_annotations: Mapping[str, str], policy: TranslationPolicy) -> bool:
    """Return whether the Pod names a partition, so that restrictions of partitions matter."""
    restricted_names = policy.nameable is not None
    return (
        restricted_names
        and read_settings(pod.annotations, root_annotations, policy).chosen.get(table.PARTITION) is not None
    )


def _request(pods: Sequence[PodView], chosen: Chosen, size: Size, defaults: JobDefaults, created: float) -> JobRequest:
    """Return the request with every setting that is given or has a default, and with the size of the Pods."""
    fields: dict[str, Any] = {"title": pods[0].full_name}
    for setting in table.SETTINGS:
        requested = chosen.get(setting)
        value = defaults.get(setting) if requested is None else requested
        if setting.request and value is not None and not isinstance(value, Unsent):
            fields[setting.request] = value.at(created) if isinstance(value, Instant) else value
        if isinstance(value, Switches):
            fields |= {"switches": value.count, "switches_wait_s": value.wait_s}
    fields |= {"cpus": size.cpus, "memory_mb": size.memory_mb, "whole_node": size.whole_node}
    return JobRequest(**fields, members=len(pods), gres=size.gres)


def _licenses(chosen: Chosen, defaults: JobDefaults, size: Size) -> Licenses:
    own = chosen.get(table.LICENSES)
    default = defaults.get(table.LICENSES) or ""
    where = f'the default licences "{default}"' if own is None else chosen.says(table.LICENSES)
    return combined(own or default, size.licenses, where)


def _time_limit(
    pods: Sequence[PodView],
    chosen: Chosen,
    defaults: JobDefaults,
    allowed: Range | None,
    job_deadline_s: int | None,
) -> tuple[int | None, int | None, bool]:
    """Return the limit in minutes, its lower bound, and whether the site decides it instead of the Pod.

    An annotation is sent to Slurm as it is, whatever Kubernetes does earlier.
    """
    requested = chosen.get(table.TIME_LIMIT)
    if requested is not None:
        return requested, None, False
    most = None if allowed is None else allowed.at_most
    if own := minutes_for(pods, job_deadline_s):
        limit, least = own
        return (limit, least, False) if most is None or limit <= most else (most, least, True)
    default = defaults.get(table.TIME_LIMIT)
    limited = most if default is None else default
    return limited, None, limited is not None


def _disagreements(pods: Sequence[PodView], choices: Sequence[Chosen]) -> list[str]:
    return [
        f"{setting.name}: Pods {pods[0].full_name} and {pod.full_name} differ in it; the Pods of one job must agree"
        for setting in table.SETTINGS
        for pod, chosen in zip(pods[1:], choices[1:], strict=True)
        if chosen.get(setting) != choices[0].get(setting)
    ]


def _once(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return each sentence once: the first ones, and one more about how many there are besides."""
    every = tuple(dict.fromkeys(sentences))
    if len(every) <= MOST_SENTENCES:
        return every
    return (*every[:MOST_SENTENCES], f"{len(every) - MOST_SENTENCES} more faults; correct these first")


def _out_of_bounds(chosen: Chosen, members: int) -> list[str]:
    """Return faults of settings that contradict each other."""
    faults = []
    fewest, most = chosen.get(table.MIN_NODES), chosen.get(table.MAX_NODES)
    if fewest is not None and fewest > members:
        faults.append(f"{chosen.says(table.MIN_NODES)} is more nodes than Pods; it must be at most {members}")
    if fewest is not None and most is not None and fewest > most:
        faults.append(
            f"{chosen.says(table.MIN_NODES)} is more than {chosen.says(table.MAX_NODES)}; it must be at most that"
        )
    required, excluded = chosen.get(table.REQUIRED_NODES), chosen.get(table.EXCLUDED_NODES)
    if both := sorted(set(required or ()).intersection(excluded or ())):
        faults.append(
            f"{chosen.says(table.REQUIRED_NODES)} and {chosen.says(table.EXCLUDED_NODES)} both name {both[0]}; "
            "a node can be in one of them"
        )
    return faults


def _pinned(pods: Sequence[PodView], policy: TranslationPolicy) -> list[str]:
    if not policy.refuse_pinned:
        return []
    faults = []
    for pod in pods:
        with suppress(ValueError):  # size_of reports a quantity that cannot be read
            if names := ", ".join(pinned(pod)):
                faults.append(
                    f"Pod {pod.full_name} is Guaranteed and requests whole CPUs ({names}), which the kubelet's static "
                    "CPU policy would take from Slurm's jobs on the node; the site does not allow that "
                    "(jobs.refusePinnedCpus): request a fraction of a CPU, or set a limit above the request"
                )
    return faults


def _grace(pods: Sequence[PodView], policy: TranslationPolicy) -> list[str]:
    faults = [
        f"Pod {pod.full_name} has terminationGracePeriodSeconds {pod.grace_s}; the site allows at most "
        f"{policy.max_pod_grace_s} s (limits.maxPodGrace), since a removed Pod may hold its node for that long"
        for pod in pods
        if pod.grace_s > policy.max_pod_grace_s
    ]
    if not policy.strict_grace:
        return faults
    return faults + [
        f"termination grace period must be less than Slurm KillWait - 5s: Pod {pod.full_name} has {pod.grace_s} s, "
        f"KillWait is {policy.kill_wait_s} s"
        for pod in pods
        if pod.grace_s >= policy.kill_wait_s - 5
    ]
