"""Recognise the Pods of JobSets that have succeeded: their Jobs do not create those again."""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.gangs import labels
from extender.domain.gangs.context import JobKey, JobSetAttempt
from extender.domain.gangs.controlled import BATCH_GROUP
from extender.domain.gangs.readers import read_index
from extender.domain.views import PodView


@dataclass(frozen=True, slots=True)
class Success:
    """A Pod of a JobSet's Job that has succeeded. Of several Pods of one `place` of a `job` one counts."""

    attempt: JobSetAttempt
    job: JobKey
    place: int | str
    """The completion index; the UID of the Pod where its Job is not Indexed."""


def success_of(pod: PodView) -> Success | None:
    """Return the success of a JobSet's Pod; `None` for any other Pod, and for one that is being deleted.

    The Pod must have the label with the UID of its JobSet: Pods of an earlier JobSet of the same name do not count.
    Labels and owner are as their author wrote them. An author of Pods can thereby start gangs of JobSets with fewer
    members, but only in a namespace in which that author may create Pods.
    """
    uid = pod.labels.get(labels.JOBSET_UID)
    if not uid or pod.phase != "Succeeded" or pod.deleted_at is not None:
        return None
    if pod.owner is None or pod.owner.kind != "Job" or pod.owner.api_version.rpartition("/")[0] != BATCH_GROUP:
        return None
    index = read_index(pod.labels.get(labels.JOB_INDEX) or pod.annotations.get(labels.JOB_INDEX))
    attempt = JobSetAttempt(pod.namespace, uid, pod.labels.get(labels.JOBSET_ATTEMPT, "0"))
    return Success(attempt, (pod.owner.name, pod.owner.uid), pod.uid if index is None else index)
