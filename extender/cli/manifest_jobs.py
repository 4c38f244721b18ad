"""Group the Pods of manifests into workloads, and translate each into the one job that it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from extender.config.jobs import Gangs
from extender.domain.gangs.agreement import Disagreed, MemberRequest, agreed
from extender.domain.gangs.context import GangContext, GroupView
from extender.domain.gangs.membership import SHARED_NAMES, GangSource, Membership, gang_title
from extender.domain.gangs.one_by_one import parallel_of
from extender.domain.gangs.pod_groups import POD_GROUP_KINDS, PodGroupView
from extender.domain.gangs.recognition import GangRefused, recognise
from extender.domain.gangs.tenancy import tenant_of
from extender.domain.jobs.job import JobRequest
from extender.domain.policy.site import TranslationPolicy
from extender.domain.translation.allowance import too_many
from extender.domain.translation.notice import Notice
from extender.domain.translation.roundings import roundings
from extender.domain.translation.translate import Translated, TranslationRefused, charged_to, translate
from extender.domain.wellknown import Reason
from extender.kube.wire.manifest import ManifestPod


@dataclass(frozen=True, slots=True)
class Site:
    """Hold the decisions of the site about the Pods of all files."""

    policy: TranslationPolicy
    scheduler: str
    gangs: Gangs
    namespace_labels: Mapping[str, str]
    now: float
    groups: Sequence[PodGroupView] = ()
    """The PodGroups of all files."""

    configured: bool = True
    """A configuration was given. Without one every PodGroup of the files is read."""

    @property
    def groups_read(self) -> frozenset[GangSource]:
        """Return the sources whose PodGroups make gangs."""
        if not self.configured:
            return frozenset(one.kind.source for one in self.groups)
        return frozenset(kind.source for kind in POD_GROUP_KINDS if kind.api in self.gangs.pod_groups)


@dataclass(slots=True)
class ManifestWorkload:
    """The Pods of the files that share one job, and the gang that they are, if they are one."""

    members: list[ManifestPod] = field(default_factory=list)
    gang: Membership | GangRefused | None = None

    @property
    def pods(self) -> int | None:
        """Return the number of Pods that the files make; `None`: one for each matching Node."""
        counts = [one.pods for one in self.members]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def beside(self) -> int | None:
        """Return the number of Pods that run beside each other; `None`: one on each matching Node."""
        counts = [one.pods if one.beside is None else one.beside for one in self.members]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def jobs(self) -> int | None:
        """Return the number of Slurm jobs; `None`: one on each matching Node."""
        size = self.size
        beside = self.beside
        if size is None or beside is None:
            return self.pods
        if not isinstance(self.gang, Membership) or self.gang.source in SHARED_NAMES:
            return 1
        return -(-beside // size)

    @property
    def size(self) -> int | None:
        """Return the number of members of the gang; `None`: the Pods are none."""
        return self.gang.expected if isinstance(self.gang, Membership) else None

    @property
    def parallel(self) -> bool:
        """Return whether the Pods probably need each other, although they are no gang."""
        several = self.pods is not None and self.pods > 1
        return several and self.size is None and any(parallel_of(one.created) is not None for one in self.members)


def grouped(found: Sequence[ManifestPod], site: Site) -> list[ManifestWorkload]:
    """Return the workloads in the order of their first Pods."""
    workloads: dict[tuple[object, ...], ManifestWorkload] = {}
    groups = {one.ref: GroupView(one.uid, one.least) for one in site.groups}
    read = site.groups_read
    for number, one in enumerate(found):
        context = GangContext(one.controllers, groups.get, read, jobs=site.gangs.jobs, largest=site.gangs.largest)
        gang = recognise(one.created, context)
        key: tuple[object, ...] = (number,)
        if isinstance(gang, Membership) and gang.expected is not None:
            tenant: tuple[str, ...] = ()
            if gang.source in SHARED_NAMES:
                charge = charged_to(one.pod, one.root_annotations, site.policy, site.namespace_labels)
                tenant = tenant_of(charge)
            key = ("gang", gang.key(tenant))
        workload = workloads.setdefault(key, ManifestWorkload(gang=gang))
        workload.members.append(one)
    return list(workloads.values())


def job_of(workload: ManifestWorkload, site: Site) -> tuple[Translated | TranslationRefused, tuple[str, ...]]:
    """Return the job of a workload, or why it gets none, and what was rounded."""
    requests: list[MemberRequest] = []
    faults: list[str] = []
    rounded: list[str] = []
    notices: list[Notice] = []
    if isinstance(workload.gang, GangRefused):
        faults.append(workload.gang.text)
    for one in workload.members:
        faults += _beyond_rule(workload, one, site)
        deadline_s = one.job_deadline_s
        outcome = translate(
            [one.pod], one.root_annotations, site.policy, site.now, site.namespace_labels, job_deadline_s=deadline_s
        )
        if isinstance(outcome, TranslationRefused):
            faults += outcome.faults
            continue
        requests.append(MemberRequest(one.pod.full_name, outcome.request))
        notices += outcome.notices
        rounded += roundings(one.pod, outcome.request, deadline_s)
    request: JobRequest | None = None
    if requests and not faults:
        size = workload.size
        together = agreed(_title(workload), requests, size or 1)
        if isinstance(together, Disagreed):
            faults += together.faults
        else:
            if together.notice:
                notices.append(Notice(Reason.GANG_MEMBERS_DIFFER, together.notice))
            request = together.request if size is None else replace(together.request, members=size)
    if request is None:
        return TranslationRefused(tuple(dict.fromkeys(faults))), ()
    return Translated(request, tuple(dict.fromkeys(notices))), tuple(dict.fromkeys(rounded))


def _beyond_rule(workload: ManifestWorkload, one: ManifestPod, site: Site) -> list[str]:
    if not isinstance(workload.gang, Membership):
        return []
    rule = site.policy.pods.rule_for(one.pod, site.namespace_labels)
    fault = too_many(rule, workload.gang.name, workload.gang.expected or 0)
    return [fault] if fault else []


def _title(workload: ManifestWorkload) -> str:
    if isinstance(workload.gang, Membership):
        return gang_title(workload.gang)
    return workload.members[0].pod.full_name


def counted(workload: ManifestWorkload) -> str:
    """Return a sentence about the numbers of Pods and jobs."""
    pods, beside, jobs, size = workload.pods, workload.beside, workload.jobs, workload.size
    kind = workload.members[0].kind
    each_run = " for each run" if kind == "CronJob" else ""
    if pods is None or beside is None or jobs is None:
        return "one Pod on each matching Node, and a Slurm job for each Pod"
    at_once = f", {beside} at a time" if beside < pods else ""
    if size is None or not isinstance(workload.gang, Membership):
        alone = "" if pods == 1 else "; each Pod gets a job of its own and starts by itself (no gang)"
        return f"{_several(pods, 'Pod')}{at_once}, {_several(jobs, 'Slurm job')}{each_run}{alone}"
    name = workload.gang.name
    if jobs == 1:
        of = f"{name} is a gang: {size} Pods get this one job, and start together"
        missing = f"; {_several(pods, 'Pod')} of it in the input" if pods < size else ""
        later = f"; {pods} Pods in all, each later one takes a free place" if pods > size else ""
        return f"{of}{missing}{later}{each_run}"
    return f"{jobs} gangs such as {name}: {size} Pods of each get one job, and start together{each_run}"


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
