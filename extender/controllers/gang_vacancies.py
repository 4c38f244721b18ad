"""Return nodes of gangs to Slurm that no member needs any more, while the other members run.

The slot of a member that succeeded is free at once, unless its Job creates further Pods. That of one that failed or was
removed is kept for its successor, for a limited time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extender.controllers.gangs.members import GangMembers
from extender.domain import events as e
from extender.domain.events import PodEnd, Unshrinkable
from extender.domain.gangs.vacancies import Vacancy, batch_host, unused_nodes, vacancies
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Announcement, Announcer, Clock
from extender.domain.wellknown import Reason
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten

SOON = 0.05
"""Seconds after a change: Pods that wait for a slot have taken it by then."""

RETRY = 10.0
"""Seconds before nodes are offered again of which it is not known whether Slurm took them."""


@dataclass(frozen=True, slots=True)
class VacancyTimes:
    """The limits of vacant slots, in seconds."""

    replace_within: float = 60.0
    """How long the slot of a member that failed or was removed is kept for its successor."""

    late_within: float = 600.0
    """How long slots may be without their first Pod before an Event names them."""


class GangVacancies:
    """Watch the vacant slots of gangs. Keys are those of workloads.

    `is_held` says of a Slurm node whether a Pod may run there that is removed, or not adopted yet: its slot stays until
    that is over.
    """

    def __init__(
        self,
        engine: Engine,
        gangs: GangMembers,
        announcer: Announcer,
        clock: Clock,
        *,
        times: VacancyTimes,
        is_held: Callable[[str], bool],
    ) -> None:
        self._placeholders = engine.placeholders
        self._emit: Callable[[str, e.Event, str], None] = engine.handle
        self._gangs = gangs
        self._announcer = announcer
        self._clock = clock
        self._times = times
        self._is_held = is_held
        self._since: dict[str, dict[Vacancy, float]] = {}
        """When each vacant slot was first seen."""

        self._reported: dict[str, set[tuple[int, str]]] = {}
        """By workload: jobs and nodes that stay although they are vacant, and jobs with slots that no Pod had yet."""

        self._forbidden = False
        """Slurm shrinks no job that runs (`disable_job_shrink`); asked once."""

        self._controller = Controller("vacant slots of gangs", self._reconcile, keep_early=True)

    async def run(self) -> None:
        """Return nodes until cancelled."""
        await self._controller.run()

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Check a gang whose members or nodes changed, or whose nodes Slurm may not have taken back."""
        before, after = event.before, event.after
        job = after.job
        if job is not None and job.unshrinkable is Unshrinkable.SITE:
            self._forbidden = True
        if after.state is not State.BOUND or job is None or len(job.slots) < 2:
            self._since.pop(after.key, None)
            return
        if before.members is not after.members or before.payload is not after.payload:
            self._controller.add(after.key, after=SOON)

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Drop what is remembered of a workload that is over."""
        self._since.pop(event.key, None)
        self._reported.pop(event.key, None)

    async def _reconcile(self, key: str) -> Requeue | None:
        """Return the nodes whose slots have been vacant for long enough, and say when the next are."""
        p, now = self._placeholders.get(key), self._clock.now()
        size = self._gangs.size_of(key)
        vacant = vacancies(p, size) if p is not None and size else ()
        if p is None or not vacant:
            self._since.pop(key, None)
            return None
        known = self._since.get(key, {})
        since = self._since[key] = {one: known.get(one, now) for one in vacant}
        due = {one: since[one] + self._kept_for(key, one) for one in vacant}
        due |= {one: max(due[one], now + RETRY) for one in vacant if self._is_held(one.slurm_node)}
        unused = unused_nodes(p, (one for one in vacant if due[one] <= now and not self._may_come(key, one)))
        self._report_empty(p, [one for one in vacant if due[one] <= now and self._may_come(key, one)])
        self._return(p, unused)
        later = [at for at in due.values() if at > now]
        if not later and not unused:
            return None
        return Requeue(max(min([*(at - now for at in later), *([RETRY] if unused else [])]), SOON))

    def _kept_for(self, key: str, vacancy: Vacancy) -> float:
        if self._may_come(key, vacancy):
            return self._times.late_within
        done = vacancy.last is PodEnd.SUCCEEDED and not self._gangs.has_further(key)
        return 0.0 if done else self._times.replace_within

    def _may_come(self, key: str, vacancy: Vacancy) -> bool:
        """Return whether the first Pod of a slot may still come: its controller waits until others are Ready."""
        return vacancy.last is None and self._gangs.starts_by_leader(key)

    def _return(self, p: Placeholder, nodes: tuple[str, ...]) -> None:
        """Return nodes to Slurm; report once, for each job, those that Slurm keeps."""
        job, host = p.job, batch_host(p)
        if job is None or not nodes:
            return
        if host in nodes:
            why = "the script of the job runs there"
            self._report(p, host, f"Slurm job {job.job_id} keeps Slurm node {host} until the job ends: {why}.")
        nodes = tuple(node for node in nodes if node != host)
        if nodes:
            # The one Event about the site was on the first gang that met its refusal.
            self._emit(p.key, e.NodesVacated(nodes, self._forbidden), "vacant slots")

    def _report_empty(self, p: Placeholder, empty: list[Vacancy]) -> None:
        if empty:
            late = f"{self._times.late_within:g} s after the others were bound"
            text = f"{len(empty)} of the {p.size} nodes of the gang wait for their first Pod, {late}."
            self._report(p, "", text)

    def _report(self, p: Placeholder, node: str, text: str) -> None:
        about = p.job_id or 0, node
        reported = self._reported.setdefault(p.key, set())
        ref = next((member.ref for member in p.members if not (member.end or member.unknown)), None)
        if about in reported or ref is None:
            return
        reported.add(about)
        self._announcer.announce(Announcement("Pod", ref.namespace, ref.name, ref.uid, Reason.GANG_NODES_KEPT, text))
