"""Change Pods: bind them, requeue them, end them. Implements `ports.Pods`.

Every write names the Pod's UID, so that it cannot change another Pod of the same name, and a repetition has no further
effect. That makes it safe to send each again after a lost answer.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from extender.domain import wellknown
from extender.domain.events import EvictAnswered, MemberRef, WakeAnswered
from extender.domain.job_outcomes.pod_ends import Grace, grace_of_new_end, grace_of_running_end
from extender.domain.pods.why import Why
from extender.domain.ports import BindAnswer, BindResult, Clock, Pods
from extender.domain.timestamp import timestamp
from extender.domain.views import PodView
from extender.kube.connection import STRATEGIC_PATCH, ApiConnection, ApiResponse
from extender.kube.errors import ApiError, ApiRefused, Conflict, Invalid, NotFound, Throttled
from extender.kube.pod_reads import PodReader, pod_path
from extender.kube.repeat import repeated

_log = structlog.get_logger(__name__)


REMEMBERED = 10_000
"""Pods of which it is remembered as what they were seen when their end was asked."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. `once` for one request; the others for all attempts of one action together.

    `bind` and `check`, which follows a Binding whose outcome is not known, must end together before kube-scheduler's
    own time-out for the extender (5 s by default).
    """

    once: float = 3.0
    bind: float = 3.5
    check: float = 1.0
    wake: float = 15.0
    end: float = 15.0


class PodWriter:
    """Implements `ports.Pods`. `max_grace_s`: no Pod that is ended gets more; `None`: each its own."""

    def __init__(
        self,
        connection: ApiConnection,
        *,
        clock: Clock,
        rng: random.Random,
        deadlines: Deadlines = Deadlines(),
        max_grace_s: int | None = None,
    ) -> None:
        self._connection = connection
        self._pods = PodReader(connection, rng=rng)
        self._clock = clock
        self._rng = rng
        self._deadlines = deadlines
        self._max_grace_s = max_grace_s
        self._ended_as: OrderedDict[str, str] = OrderedDict()
        """The version, by UID, in which the watch showed each Pod when it was ended as that one."""

    async def bind(
        self, member: MemberRef, node: str, annotations: Mapping[str, str], *, within_s: float | None = None
    ) -> BindAnswer:
        """POST the Binding; `annotations` arrive at the Pod in the same transaction. Never raises.

        A Pod that is bound already answers 409, also for the same node: then the Pod is read to decide.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": member.name, "uid": member.uid, "annotations": dict(annotations)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        within_s = self._deadlines.bind if within_s is None else min(within_s, self._deadlines.bind)
        try:
            await self._write("POST", f"{pod_path(member)}/binding", body, within_s=within_s)
        except NotFound as error:
            return BindAnswer(BindResult.REFUSED, str(error))
        except Conflict as error:
            return await self._bound_after_all(member, node, error)
        except Throttled as error:
            return BindAnswer(BindResult.UNKNOWN, str(error))  # An earlier attempt may have got through.
        except ApiRefused as error:
            return BindAnswer(BindResult.REFUSED, str(error))
        except ApiError as error:
            return await self._bound_after_all(member, node, error)
        return BindAnswer(BindResult.BOUND)

    async def wake(
        self, member: MemberRef, annotations: Mapping[str, str], *, wanted: Callable[[], bool] = lambda: True
    ) -> WakeAnswered:
        """Write the allocation record on the Pod and remove the extender's gate, in one PATCH. Never raises.

        `wanted` is asked before each request: a repetition must not write the record of a job that was released since.

        The patch is the same whether the Pod is gated or not: strategic merge deletes the gate if it exists. Either way
        kube-scheduler tries the Pod again: at once when the last gate goes, else because an annotation changed.
        """
        patch = {
            "metadata": _metadata(member, annotations),
            "spec": {"schedulingGates": [{"$patch": "delete", "name": wellknown.GATE}]},
        }
        trouble = await self._patch_pod(member, patch, "grant_not_written", wanted)
        return WakeAnswered(member.uid, not trouble, trouble)

    async def annotate(self, member: MemberRef, annotations: Mapping[str, str]) -> bool:
        """Write annotations in one PATCH. A change of them makes kube-scheduler try a Pod that waits. Never raises."""
        patch = {"metadata": _metadata(member, annotations)}
        return not await self._patch_pod(member, patch, "annotations_not_written")

    async def ungate(self, member: MemberRef) -> bool:
        """Remove the extender's gate and nothing else, so that the Pod waits in kube-scheduler. Never raises."""
        patch = {
            "metadata": {"uid": member.uid},
            "spec": {"schedulingGates": [{"$patch": "delete", "name": wellknown.GATE}]},
        }
        return not await self._patch_pod(member, patch, "gate_not_removed")

    async def explain(self, member: MemberRef, why: Why, *, transition: bool, generation: int) -> bool:
        """Write the condition that says why the Pod waits, in one PATCH of its status. Never raises.

        Conditions are merged by their type; what is not sent stays, so the instant of the last transition does.
        """
        condition: dict[str, Any] = {
            "type": wellknown.ALLOCATED_CONDITION,
            "status": "True" if why.allocated else "False",
            "reason": str(why.cause),
            "message": why.text,
        }
        if transition:
            condition["lastTransitionTime"] = timestamp(self._clock.wall())
        if generation:
            condition["observedGeneration"] = generation
        try:
            await self._patch_status(member, condition)
        except ApiError as error:
            _log.info("pod_condition_not_written", pod=member.full_name, uid=member.uid, error=str(error))
            return False
        return True

    async def end(
        self,
        member: MemberRef,
        reason: str,
        text: str,
        voluntary: bool,
        deadline: float | None = None,
        *,
        seen: PodView | None = None,
    ) -> EvictAnswered:
        """Evict or delete the Pod, and set the condition that names the cause. Never raises.

        A voluntary end sets the condition last: the eviction may be refused, and when it is not, it overwrites the
        condition (Kubernetes `pkg/registry/core/pod/storage/eviction.go`). A Pod that is ending already only has its
        grace period shortened.

        The informer's state is enough for a Pod that is not ending: if it was ended a moment ago, the API server keeps
        the grace period that it has (`rest.BeforeDelete`). A repeated call reads the Pod.
        """
        try:
            pod = self._news(member, seen) or await self._pods.read_within(member, self._deadlines.once)
        except ApiError as error:
            _log.info("pod_not_read", pod=member.full_name, uid=member.uid, error=str(error))
            grace, ending, named = Grace(), False, False
        else:
            if pod is None:
                return EvictAnswered(member.uid, accepted=True, text="the Pod is gone")
            grace, ending, named = self._grace(pod, deadline), pod.deleted_at is not None, pod.disruption == reason
        text = f"{text} {grace.why}".rstrip()
        evicts = voluntary and not ending
        if not evicts and not (ending and named and not grace.why):
            await self._set_condition(member, reason, text)
        try:
            if evicts:
                await self._evict(member, grace)
            elif not ending or grace.requested is not None:
                await self._delete(member, grace)
        except NotFound:
            return EvictAnswered(member.uid, accepted=True, text="the Pod is gone")
        except Conflict as error:
            return await self._gone_after_all(member, error)
        except Throttled as error:
            return EvictAnswered(
                member.uid, accepted=False, text=str(error), budget=evicts, retry_after_s=error.retry_after_s
            )
        except ApiError as error:
            return EvictAnswered(member.uid, accepted=False, text=str(error))
        if evicts:
            await self._set_condition(member, reason, text)
        return EvictAnswered(member.uid, accepted=True, shortened=grace.why)

    def _news(self, member: MemberRef, seen: PodView | None) -> PodView | None:
        """Return the Pod as the watch shows it, if that was not the base of an end already and it is not ending."""
        if seen is None or seen.deleted_at is not None or self._ended_as.get(member.uid) == seen.resource_version:
            return None
        self._ended_as[member.uid] = seen.resource_version
        if len(self._ended_as) > REMEMBERED:
            self._ended_as.popitem(last=False)
        return seen

    def _grace(self, pod: PodView, deadline: float | None) -> Grace:
        """Return the Pod's grace period: the shorter of the site's limit and the remaining time."""
        now = self._clock.wall()
        most: list[tuple[float, str]] = []
        if self._max_grace_s is not None:
            most.append((float(self._max_grace_s), "limits.maxGrace allows no more"))
        if deadline is not None:
            left = deadline - self._clock.now()
            most.append((left, f"Slurm gives its node away at {timestamp(now + left)}"))
        seconds, why = min(most) if most else (None, "")
        if pod.deleted_at is None:
            return grace_of_new_end(pod.grace_s, seconds, why)
        return grace_of_running_end(pod.deletion_grace_s or 0, pod.deleted_at - now, seconds, why)

    async def _evict(self, member: MemberRef, grace: Grace) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": member.name, "namespace": member.namespace},
            "deleteOptions": _delete_options(member, grace),
        }
        # A 429 here is a disruption budget, which may reject for hours: it is an answer, not a reason to wait.
        await self._write(
            "POST", f"{pod_path(member)}/eviction", body, within_s=self._deadlines.end, wait_when_throttled=False
        )

    async def _delete(self, member: MemberRef, grace: Grace) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions"} | _delete_options(member, grace)
        await self._write("DELETE", pod_path(member), body, within_s=self._deadlines.end)

    async def _set_condition(self, member: MemberRef, reason: str, text: str) -> None:
        """Name the cause, for users and for Job failure policies: a failure here must not keep a Pod alive."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": text,
            "lastTransitionTime": timestamp(self._clock.wall()),
        }
        try:
            await self._patch_status(member, condition)
        except (NotFound, Invalid, Conflict):
            pass  # Gone, or another Pod by now.
        except ApiError as error:
            _log.warning("disruption_condition_not_written", pod=member.full_name, uid=member.uid, error=str(error))

    async def _patch_status(self, member: MemberRef, condition: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": member.uid}, "status": {"conditions": [condition]}}
        await self._write("PATCH", f"{pod_path(member)}/status", patch, within_s=self._deadlines.once)

    async def report(self, member: MemberRef, kind: str, holds: bool | None, reason: str, text: str) -> bool:
        """Write a condition of the extender's; `holds` `None`: Unknown. Return whether it is written. Never raises."""
        condition = {
            "type": kind,
            "status": "Unknown" if holds is None else str(holds),
            "reason": reason,
            "message": text,
            "lastTransitionTime": timestamp(self._clock.wall()),
        }
        try:
            await self._patch_status(member, condition)
        except NotFound:
            return True
        except ApiError as error:
            _log.warning("condition_not_written", pod=member.full_name, uid=member.uid, error=str(error))
            return False
        return True

    async def _patch_pod(
        self, member: MemberRef, patch: dict[str, Any], trouble: str, wanted: Callable[[], bool] = lambda: True
    ) -> str:
        """Patch the Pod; return why it failed, "": it did not."""
        try:
            await self._write("PATCH", pod_path(member), patch, within_s=self._deadlines.wake, wanted=wanted)
        except ApiError as error:
            _log.warning(trouble, pod=member.full_name, uid=member.uid, error=str(error))
            return str(error)
        return ""

    async def _bound_after_all(self, member: MemberRef, node: str, error: ApiError) -> BindAnswer:
        """Return whether the Pod is bound as requested, when the Binding's own answer does not show it."""
        try:
            pod = await self._pods.read_within(member, self._deadlines.check)
        except ApiError as unread:
            return BindAnswer(BindResult.UNKNOWN, f"{error}; the Pod cannot be read: {unread}")
        if pod is None:
            return BindAnswer(BindResult.REFUSED, f"the Pod is gone or was replaced: {error}")
        if pod.node_name == node:
            return BindAnswer(BindResult.BOUND)
        if isinstance(error, Conflict) or pod.node_name:
            return BindAnswer(BindResult.REFUSED, str(error))
        return BindAnswer(BindResult.UNKNOWN, str(error))  # The lost Binding may still be carried out.

    async def _gone_after_all(self, member: MemberRef, error: Conflict) -> EvictAnswered:
        try:
            pod = await self._pods.read_within(member, self._deadlines.once)
        except ApiError as unread:
            return EvictAnswered(member.uid, accepted=False, text=f"{error}; the Pod cannot be read: {unread}")
        if pod is None:
            return EvictAnswered(member.uid, accepted=True, text="the Pod is gone")
        return EvictAnswered(member.uid, accepted=False, text=str(error))

    async def _write(
        self,
        method: str,
        path: str,
        body: dict[str, Any],
        *,
        within_s: float,
        wait_when_throttled: bool = True,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        content_type = STRATEGIC_PATCH if method == "PATCH" else "application/json"

        async def send(timeout_s: float) -> ApiResponse:
            if not wanted():
                raise ApiError(f"{method} {path} was not sent: it is no longer wanted")
            return await self._connection.request(
                method, path, body=body, content_type=content_type, timeout_s=timeout_s
            )

        await repeated(
            send,
            within_s=within_s,
            once_s=self._deadlines.once,
            rng=self._rng,
            wait_when_throttled=wait_when_throttled,
        )


def _metadata(member: MemberRef, annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata of a patch; the label with the job is written wherever its annotation is."""
    job_id = annotations.get(wellknown.JOB_ID)
    labels = {"labels": {wellknown.JOB_ID_LABEL: job_id}} if job_id else {}
    return {"uid": member.uid, "annotations": dict(annotations)} | labels


def _delete_options(member: MemberRef, grace: Grace) -> dict[str, Any]:
    options: dict[str, Any] = {"preconditions": {"uid": member.uid}}
    return options if grace.requested is None else options | {"gracePeriodSeconds": grace.requested}


_POD_WRITER_IS_PODS: type[Pods] = PodWriter
