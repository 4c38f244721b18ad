"""Report once, on the first Pod that it concerns, that no mode keeps the next job from its node while the Pod ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import structlog

from extender.domain.jobs.job import Mode
from extender.domain.nodes.fence_evidence import FencedNodes
from extender.domain.nodes.fences import beside_its_victim
from extender.domain.placeholder import Placeholder, State
from extender.domain.placing.mode import no_safe_mode
from extender.domain.ports import Announcement, Announcer
from extender.domain.wellknown import Reason
from extender.engine.engine import Engine
from extender.runtime.topics import PlaceholderChanged

_log = structlog.get_logger(__name__)


class UnsafeJobs:
    """Compare each granted job with what is known of fences. `fenced`: the nodes with a working fence."""

    def __init__(self, engine: Engine, fenced: Callable[[], FencedNodes], announcer: Announcer) -> None:
        self._engine = engine
        self._fenced = fenced
        self._announcer = announcer
        self._reported: set[str] = set()
        """Partitions, and "" for nodes without slurmd: each is reported once in the life of the process."""

    def sentences(self) -> tuple[str, ...]:
        """Return what is unsafe now, beside the settings of partitions."""
        slurm = self._engine.snapshot.slurm
        return no_safe_mode(slurm, self._fenced()) if slurm.known else ()

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Report a job that was granted just now, if nothing holds its node and that was not reported yet."""
        p = event.after
        if p.state is not State.GRANTED or event.before.state is State.GRANTED:
            return
        for cause, text in self._causes(p):
            if cause in self._reported:
                continue
            self._reported.add(cause)
            for ref in p.refs[:1]:
                _log.warning("no_safe_mode", pod=ref.full_name, uid=ref.uid, problem=text)
                announcement = Announcement(
                    "Pod", ref.namespace, ref.name, ref.uid, Reason.NO_WORKING_FENCE, f"{text}.", warning=True
                )
                self._announcer.announce(announcement)

    def _causes(self, p: Placeholder) -> Iterator[tuple[str, str]]:
        slurm = self._engine.snapshot.slurm
        # What was reported is not worked out again: it goes through all nodes.
        if (
            p.mode is Mode.EXTERNAL
            and "" not in self._reported
            and self._fenced().unfenced(p.slurm_nodes, p.slurm_nodes)
        ):
            for text in self.sentences():
                yield "", f"{text[0].upper()}{text[1:]}"
        request = p.submitted_request
        for name in slurm.partition_names(request.partition if request is not None else ""):
            partition = slurm.partitions.get(name)
            if partition is not None and (text := beside_its_victim(partition)):
                yield name, f"{text[0].upper()}{text[1:]}"
