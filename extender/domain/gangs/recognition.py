"""Decide to which gang a Pod belongs.

Sources that an author writes (annotation, group, label) go before those that a controller's Pods have anyway
(LeaderWorkerSet, JobSet, Job): of the former a Pod may name one alone. For all others the first match applies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extender.domain.gangs import labels
from extender.domain.gangs.context import GangContext, GroupRef
from extender.domain.gangs.controlled import (
    BATCH_GROUP,
    is_of_leader_worker_set,
    of_job,
    of_job_set,
    of_leader_worker_set,
)
from extender.domain.gangs.membership import GangSource, MemberOrder, Membership
from extender.domain.gangs.order import order_of
from extender.domain.gangs.readers import quoted, read_index, read_name, read_size
from extender.domain.views import PodView
from extender.domain.wellknown import GANG, GANG_SIZE


@dataclass(frozen=True, slots=True)
class GangRefused:
    """The Pod says something about its gang that cannot be used. `text` says what and what to do."""

    text: str


Recognition = Membership | GangRefused | None
"""`None`: the Pod is a workload of its own."""


def recognise(pod: PodView, context: GangContext) -> Recognition:
    """Return the gang of a Pod, or why none can be made of what it says."""
    named = _named(pod, context)
    if len(named) > 1:
        (first, first_text), (other, other_text) = named[:2]
        return GangRefused(
            f"The Pod names two gangs, {first}: {quoted(first_text)} and {other}: {quoted(other_text)}. Remove one."
        )
    if named and (by_name := _by_name(pod, context, *named[0])) is not None:
        return by_name
    for read in (of_leader_worker_set, of_job_set, of_job):
        found = read(pod, context)
        if isinstance(found, str):
            return GangRefused(found)
        if found is not None:
            return found if _is_several(found) else None
    return None


def group_of(pod: PodView) -> GroupRef | None:
    """Return the PodGroup that the Pod names, whether such are read or not. Its name may be no valid one."""
    volcano = next((name for key in labels.VOLCANO_GROUPS if (name := pod.annotations.get(key, ""))), "")
    for source, name in (
        (GangSource.POD_GROUP, pod.scheduling_group),
        (GangSource.COSCHEDULING, pod.labels.get(labels.COSCHEDULING_GROUP, "")),
        (GangSource.VOLCANO, volcano),
    ):
        if called := name.strip():
            return GroupRef(source, pod.namespace, called)
    return None


def _is_several(found: Membership) -> bool:
    most = found.expected if found.most is None else found.most
    return most is None or most > 1 or bool(found.unknown)


def _named(pod: PodView, context: GangContext) -> list[tuple[str, str]]:
    """Return which sources the Pod itself names, as key and value, in the order of precedence."""
    found = []
    own = pod.annotations.get(GANG, "").strip()
    of_job = context.controller(BATCH_GROUP, "Job") is not None  # there it says which Pods, and the Job says how many
    if GANG_SIZE in pod.annotations or (own and not of_job):
        found.append((GANG if own else GANG_SIZE, own or pod.annotations[GANG_SIZE]))
    if pod.scheduling_group:
        found.append(("spec.schedulingGroup", pod.scheduling_group))
    by_label = (labels.COSCHEDULING_GROUP, *((labels.KUEUE_GROUP,) if _starts_together_by_kueue(pod) else ()))
    found += [(key, text) for key in by_label if (text := pod.labels.get(key, ""))]
    volcano = [(key, text) for key in labels.VOLCANO_GROUPS if (text := pod.annotations.get(key, ""))]
    if len({text for _, text in volcano}) < len(volcano):
        volcano = volcano[:1]  # the old key and the new one for the same group
    return found + volcano


def _starts_together_by_kueue(pod: PodView) -> bool:
    """Return whether the Pod's group of Kueue, if it has one, is a gang.

    Kueue also writes groups on Pods of LeaderWorkerSets and StatefulSets, which may be created one after the other.
    """
    return pod.annotations.get(labels.KUEUE_SERVING) != "true" and not is_of_leader_worker_set(pod)


def _by_name(pod: PodView, context: GangContext, key: str, text: str) -> Membership | GangRefused | None:
    """Return the gang that the Pod names; `None`: it names a PodGroup that makes none, or is not read.

    The Pod's controllers may still say that it is a member of a gang.
    """
    readers: dict[str, Callable[[PodView, GangContext, str], Membership | GangRefused | None]] = {
        "spec.schedulingGroup": _grouped(GangSource.POD_GROUP),
        labels.COSCHEDULING_GROUP: _grouped(GangSource.COSCHEDULING),
        labels.KUEUE_GROUP: _kueue,
        **dict.fromkeys(labels.VOLCANO_GROUPS, _grouped(GangSource.VOLCANO)),
    }
    return readers.get(key, _annotated)(pod, context, text)


def _annotated(pod: PodView, context: GangContext, _text: str) -> Membership | GangRefused:
    name, size = pod.annotations.get(GANG, ""), pod.annotations.get(GANG_SIZE, "")
    for key, text, other in ((GANG, name, GANG_SIZE), (GANG_SIZE, size, GANG)):
        if not text.strip():
            return GangRefused(f"{other} is set and {key} is not. Set both on every Pod of the gang.")
    try:
        called = read_name(name)
    except ValueError as why:
        return GangRefused(f"{GANG}: {quoted(name)} is not allowed; {why}.")
    try:
        expected = read_size(size.strip(), context.largest)
    except ValueError as why:
        return GangRefused(f"{GANG_SIZE}: {quoted(size)} is not allowed; {why}.")
    identity = (context.root_uid, called)
    return Membership(GangSource.ANNOTATION, pod.namespace, f"gang {called}", identity, expected, order_of(pod))


def _kueue(pod: PodView, context: GangContext, text: str) -> Membership | GangRefused:
    size = pod.annotations.get(labels.KUEUE_SIZE, "")
    try:
        called = read_name(text)
        expected = read_size(size, context.largest)
    except ValueError as why:
        key, value = (labels.KUEUE_SIZE, size) if read_index(size) is None else (labels.KUEUE_GROUP, text)
        return GangRefused(f"{key}: {quoted(value)} is not allowed; {why}.")
    index = read_index(pod.labels.get(pod.annotations.get(labels.KUEUE_INDEX_LABEL, ""), None))
    order = order_of(pod) if index is None else MemberOrder((index,), pod.name)
    identity = (context.root_uid, called)
    return Membership(GangSource.KUEUE, pod.namespace, f"Kueue pod group {called}", identity, expected, order)


def _grouped(source: GangSource) -> Callable[[PodView, GangContext, str], Membership | GangRefused | None]:
    def read(pod: PodView, context: GangContext, text: str) -> Membership | GangRefused | None:
        if source not in context.groups_read:
            return None
        try:
            called = read_name(text)
        except ValueError as why:
            return GangRefused(f"The name of the Pod's PodGroup, {quoted(text)}, is not allowed; {why}.")
        group, title = context.group(GroupRef(source, pod.namespace, called)), f"PodGroup {called}"
        identity = (context.root_uid, called)
        if group is None:
            unknown = (
                f"{title} does not exist in namespace {pod.namespace}, or cannot be read. "
                "Create it, or remove its name from the Pods."
            )
            return Membership(source, pod.namespace, title, identity, None, order_of(pod), unknown)
        if group.least > context.largest:
            return GangRefused(f"{title} asks for {group.least} members; at most {context.largest} are allowed.")
        if group.least <= 1:
            return None
        return Membership(source, pod.namespace, title, (*identity, group.uid), group.least, order_of(pod))

    return read
