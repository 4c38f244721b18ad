"""Announce each change that somebody made to a job by hand once."""

from __future__ import annotations

import structlog

from extender.domain.jobs.by_hand import changes
from extender.domain.jobs.job import JobRequest, JobView
from extender.domain.placeholder import Placeholder
from extender.domain.wellknown import Reason
from extender.ports import Announcement, Announcer

_log = structlog.get_logger(__name__)


class ManualChangeNotifier:
    """Remembers what was announced for each job."""

    def __init__(self, announcer: Announcer) -> None:
        self._announcer = announcer
        self._told: dict[str, tuple[int, frozenset[str]]] = {}
        """By unit: its job, and the words of what was said last of it."""

    def look(self, p: Placeholder, job: JobView, name: str, asked: JobRequest | None) -> None:
        """A read of the unit's job, of which Slurm was asked this."""
        if job.job_id != p.job_id:
            return
        found = dict(changes(asked, job, name))
        told, words = self._told.get(p.key, (job.job_id, frozenset[str]()))
        if told != job.job_id:
            words = frozenset()
        for word, text in found.items():
            if word not in words:
                _log.warning(
                    "job_changed_manually", what=word, job_id=job.job_id, pod=p.pod_names, uid=p.key, text=text
                )
                for ref in p.refs:
                    reason = Reason.CHANGED_BY_HAND
                    self._announcer.announce(
                        Announcement("Pod", ref.namespace, ref.name, ref.uid, reason, text, warning=True)
                    )
        if found:
            self._told[p.key] = job.job_id, frozenset(found)
        else:
            self._told.pop(p.key, None)

    def forget(self, key: str) -> None:
        """The unit is over."""
        self._told.pop(key, None)
