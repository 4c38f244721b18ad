"""Hands everything back that the extender has taken: gates, jobs, marks on Nodes, nodes in Slurm, drains.

Everything is looked at anew and nothing is remembered, so a run that broke off in the middle is gone on with by the
next. What cannot be told is left as it is, and said.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from extender.config.derive import counts_names, owner_of_token, slurmd_selector
from extender.config.document import ExtenderConfiguration
from extender.domain.claim import read_claim
from extender.domain.cluster import SlurmPicture
from extender.domain.drains import drainer, is_ours, reason
from extender.domain.events import MemberRef
from extender.domain.guest_mark import guest_mark_of
from extender.domain.job import JobView, Mark
from extender.domain.mapping import NodeMap, map_nodes
from extender.domain.node_marks import MarkRules, Standing, change, owner_of_marks, report
from extender.domain.ownership import mark_of_orphan
from extender.domain.removals import removals_in
from extender.domain.slurmds import slurmd_nodes
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import GATE
from extender.kube.api_clock import ApiClock
from extender.kube.cluster import cluster_id
from extender.kube.connection import CredentialsError
from extender.kube.errors import ApiError
from extender.kube.lease import LeaseLock
from extender.kube.listing import list_all
from extender.kube.node_writes import NodeWriter
from extender.kube.writes import PodWriter
from extender.ports import PortError
from extender.slurm.external_nodes import Registrar
from extender.slurm.jobs import Jobs
from extender.slurm.nodes import Nodes
from extender.wire.stream import NODE, POD
from extender.wires import Wires, real_wires

ENDED = "SlurmExtenderUninstalled"
"""Reason of the condition DisruptionTarget of Pods that are ended."""

LIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING"})
"""State words of jobs that hold something, or will."""

SLACK_S = 2.0
"""Beyond its promise, before the Lease of a leader that renews nothing counts as nobody's."""


class StillLedError(Exception):
    """An extender is at work; the text says who and what to do."""


class CannotLookError(Exception):
    """What there is cannot be read; nothing was done. The text says what and why."""


@dataclass(frozen=True, slots=True)
class HandBackOptions:
    """`force`: go on although an extender leads, and lift drains that keep Slurm off Pods without a job."""

    dry_run: bool = False
    force: bool = False
    keep_gates: bool = False
    cancel_running: bool = False


@dataclass(slots=True)
class _Found:
    """What there is."""

    pods: Mapping[str, PodView] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    """UIDs of Pods that are there and cannot be read."""

    nodes: tuple[NodeView, ...] = ()
    picture: SlurmPicture = field(default_factory=SlurmPicture)
    node_map: NodeMap = field(default_factory=NodeMap)
    kept: set[int] = field(default_factory=set)
    """Jobs that go on."""

    busy: set[str] = field(default_factory=set)
    """Slurm nodes on which they run."""


class HandBack:
    """One run. `say` is told each thing that is done, kept or left, a line each."""

    def __init__(
        self,
        config: ExtenderConfiguration,
        wires: Wires,
        cluster: str,
        options: HandBackOptions,
        say: Callable[[str], None],
    ) -> None:
        scheduler = config.scheduler.name
        owner = drainer(cluster, scheduler)
        self._config = config
        self._wires = wires
        self._options = options
        self._say = say
        self._mark = Mark(cluster, scheduler, "", 0)
        self._owner = owner
        self._rules = MarkRules(owner_of_marks(scheduler, owner))
        clock = ApiClock(wires.clock)
        wires.kubernetes.answered = clock.answered
        self._pod_writer = PodWriter(
            wires.kubernetes, clock=clock, rng=wires.rng, max_grace_s=int(config.limits.max_grace)
        )
        self._node_writer = NodeWriter(wires.kubernetes, clock=clock)
        self._jobs = Jobs(wires.slurm, wires.clock)
        self._slurm_nodes = Nodes(wires.slurm, wires.clock, owner=owner)
        self._registrar = Registrar(wires.slurm, wires.clock, owner)
        caller = owner_of_token(config)
        self._caller = None if caller is None else caller.uid
        self.done: Counter[str] = Counter()
        """`done`, `kept`, `left`: how many things."""

    async def run(self) -> bool:
        """Hand back. Whether nothing is left that another run, or a person, has to see to.

        Raises `StillLedError`, `CannotLookError`.
        """
        if not self._options.force:
            await self._nobody_leads()
        found = await self._look()
        await self._end_jobs(found)
        await self._open_gates(found)
        await self._clean_nodes(found)
        await self._take_out_nodes(found)
        await self._lift_drains(found)
        return not self.done["left"]

    async def _nobody_leads(self) -> None:
        """Nobody's clock is believed: a Lease is held that is renewed while one looks."""
        election = self._config.leader_election
        lock = LeaseLock(self._wires.kubernetes, election.namespace, election.lease_name)
        try:
            first = await lock.read(10.0)
            if first is None or not first.record.holder:
                return
            self._say(f"waiting to see whether {first.record.holder} still leads")
            await asyncio.sleep(first.record.duration_s + SLACK_S)
            again = await lock.read(10.0)
        except ApiError as error:
            raise CannotLookError(f"whether an extender leads cannot be told: {error}") from error
        if again is not None and again.record.holder and again.record.renewed != first.record.renewed:
            raise StillLedError(
                f"{again.record.holder} leads. Stop it first: kubectl -n {election.namespace} scale deployment "
                "slurm-extender --replicas=0. --force goes on all the same."
            )

    async def _look(self) -> _Found:
        kubernetes, found = self._wires.kubernetes, _Found()
        try:
            pods = await list_all(kubernetes, "/api/v1/pods", POD, lambda view: view)
            nodes = await list_all(kubernetes, "/api/v1/nodes", NODE, lambda view: view)
            found.picture = await self._slurm_nodes.picture()
        except (ApiError, PortError) as error:
            raise CannotLookError(str(error)) from error
        found.pods = {pod.uid: pod for pod in pods.views}
        found.unread = frozenset(item.identity.uid for item in pods.odd)
        found.nodes = nodes.views
        selector = slurmd_selector(self._config)
        slurmds = slurmd_nodes(pod for pod in pods.views if selector.labels and selector.selects(pod))
        found.node_map = map_nodes(nodes.views, found.picture, slurmds, by_name=counts_names(self._config))
        return found

    # Jobs.

    async def _end_jobs(self, found: _Found) -> None:
        try:
            states = await self._jobs.states()
        except PortError as error:
            raise CannotLookError(str(error)) from error
        for job_id in sorted(job_id for job_id, words in states.items() if words & LIVE):
            try:
                job = await self._jobs.read(job_id)
            except PortError as error:
                self._left(f"job {job_id} cannot be read: {error}")
                continue
            if job is not None:
                await self._end_job(job, found)

    async def _end_job(self, job: JobView, found: _Found) -> None:
        guest = guest_mark_of(job)
        if guest is not None and (guest.cluster, guest.scheduler) == (self._mark.cluster, self._mark.scheduler):
            await self._cancel(job, f"that holds what Pod {guest.pod or guest.uid} uses")
            return
        mark, sure = mark_of_orphan(job, self._mark, self._caller)
        if mark is None:
            return
        if not sure:
            self._left(f"job {job.job_id} bears our mark, and nothing proves that it is ours: scancel it if it is")
            return
        if mark.unit in found.unread:
            self._keep(job, found, f"its Pod {mark.pod or mark.unit} cannot be read")
            return
        pod = found.pods.get(mark.unit)
        if pod is None or not pod.node_name or pod.over:
            whose = f"of Pod {pod.full_name}, which waits" if pod is not None else "whose Pod is gone"
            await self._cancel(job, whose if pod is None or not pod.over else f"of Pod {pod.full_name}, which is over")
            return
        claimed = read_claim(pod.annotations, pod.uid).job_on(pod.node_name)
        if claimed not in {None, job.job_id}:
            await self._cancel(job, f"of Pod {pod.full_name}, which runs on job {claimed}")
        elif self._options.cancel_running:
            await self._end_pod(job, pod, found)
        else:
            self._keep(job, found, f"Pod {pod.full_name} runs on it")

    def _keep(self, job: JobView, found: _Found, why: str) -> None:
        self.done["kept"] += 1
        found.kept.add(job.job_id)
        found.busy |= set(job.nodes)
        self._say(f"kept: job {job.job_id}: {why}; nobody ends it with its Pod now but this command, run again")

    async def _end_pod(self, job: JobView, pod: PodView, found: _Found) -> None:
        """The job goes when its Pod is gone: Slurm would give the node away under it."""
        found.kept.add(job.job_id)
        found.busy |= set(job.nodes)
        ref = MemberRef(pod.uid, pod.namespace, pod.name)

        async def end() -> str:
            answer = await self._pod_writer.end(ref, ENDED, "The extender is being uninstalled.", voluntary=True)
            return "" if answer.accepted else answer.text

        if await self._do(f"evict Pod {pod.full_name}", end):
            self._left(f"job {job.job_id}: its Pod {pod.full_name} is ending; run this again when it is gone")

    async def _cancel(self, job: JobView, why: str) -> None:
        async def cancel() -> str:
            answer = await self._jobs.cancel(job.job_id)
            return "" if answer.over or not answer.text else answer.text

        await self._do(f"cancel job {job.job_id}, {why}", cancel)

    # Pods and Nodes.

    async def _open_gates(self, found: _Found) -> None:
        for pod in found.pods.values():
            if GATE not in pod.gates or pod.deleted_at is not None:
                continue
            if self._options.keep_gates:
                self.done["kept"] += 1
                self._say(f"kept: the gate of Pod {pod.full_name}")
                continue
            ref = MemberRef(pod.uid, pod.namespace, pod.name)

            async def ungate(ref: MemberRef = ref) -> str:
                return "" if await self._pod_writer.ungate(ref) else "the API server did not take it"

            await self._do(f"take the gate off Pod {pod.full_name}", ungate)

    async def _clean_nodes(self, found: _Found) -> None:
        for node in found.nodes:
            wanted, said = change(node, Standing(), self._rules), report(node, Standing(), self._rules)
            if wanted is not None:  # first: it is held to the version that was read

                async def clean(node: NodeView = node) -> str:
                    owed = change(node, Standing(), self._rules)
                    cleaned = owed is None or await self._node_writer.mark(node, owed)
                    return "" if cleaned else "the Node was changed meanwhile, or the API server did not take it"

                await self._do(f"take taints and cordon off Node {node.name}", clean)
            if said is not None:

                async def tell(node: NodeView = node) -> str:
                    given = report(node, Standing(), self._rules)
                    told = given is None or await self._node_writer.report(node, given)
                    return "" if told else "the Node was changed meanwhile, or the API server did not take it"

                await self._do(f"take condition and annotation off Node {node.name}", tell)

    async def _take_out_nodes(self, found: _Found) -> None:
        """Nodes that Slurm knows through us alone."""
        for node in found.picture.nodes.values():
            if not node.registered_for:
                continue
            if node.name in found.busy:
                self._left(f"Slurm node {node.name}, which we registered: jobs that are kept run there")
                continue

            async def take_out(name: str = node.name) -> str:
                await self._slurm_nodes.drain(name, reason(self._owner, ["is taken out of Slurm"]))
                answer = await self._registrar.delete(name)
                return "" if answer.done else answer.text

            await self._do(f"take Slurm node {node.name} out, which we registered", take_out)

    async def _lift_drains(self, found: _Found) -> None:
        for node in found.picture.nodes.values():
            here = node.name in found.node_map.kubernetes
            mine = "DRAIN" in node.flags and is_ours(node.reason, self._owner) and (here or self._owner in node.reason)
            if not mine or node.registered_for:
                continue
            if (why := self._needed(node.name, node.reason, found)) and not self._options.force:
                self._left(f"the drain of Slurm node {node.name}: {why}; run this again, or --force")
                continue

            async def lift(name: str = node.name) -> str:
                await self._slurm_nodes.resume(name)
                return ""

            await self._do(f"lift the drain of Slurm node {node.name} ({node.reason})", lift)

    def _needed(self, name: str, said: str, found: _Found) -> str:
        """Why Slurm must not give this node away yet."""
        for pod in found.pods.values():
            claim = read_claim(pod.annotations, pod.uid)
            at = claim.slurm_node or found.node_map.slurm.get(pod.node_name, "")
            ours = pod.scheduler_name == self._mark.scheduler and pod.node_name and not pod.over
            if ours and at == name and claim.job_on(pod.node_name) not in found.kept:
                return f"Pod {pod.full_name} is there and has no job"
        removed = removals_in(said)
        return f"Pod {removed[0].pod} was removed without its kubelet's word" if removed else ""

    # One thing.

    async def _do(self, what: str, act: Callable[[], Awaitable[str]]) -> bool:
        """Do it, or say that it would be done. Whether it was."""
        if self._options.dry_run:
            self.done["done"] += 1
            self._say(f"would {what}")
            return False
        try:
            trouble = await act()
        except (PortError, ApiError) as error:
            trouble = str(error)
        if trouble:
            self._left(f"{what}: {trouble}")
            return False
        self.done["done"] += 1
        self._say(what)
        return True

    def _left(self, text: str) -> None:
        self.done["left"] += 1
        self._say(f"left: {text}")


async def hand_back(
    config: ExtenderConfiguration, wires: Wires, options: HandBackOptions, say: Callable[[str], None]
) -> bool:
    """One run in the cluster of `wires`. Raises `StillLedError`, `CannotLookError`."""
    if options.dry_run:
        wires.mandate.share(0.0)  # nothing is ever given: no write can leave
    try:
        cluster = config.scheduler.cluster_id or await cluster_id(wires.kubernetes)
    except ApiError as error:
        raise CannotLookError(f"which cluster this is cannot be told: {error}") from error
    run = HandBack(config, wires, cluster, options, say)
    clean = await run.run()
    done = run.done
    word = "would be handed back" if options.dry_run else "handed back"
    say(f"{done['done']} things {word}, {done['kept']} kept, {done['left']} left")
    return clean


async def uninstall(config: ExtenderConfiguration, options: HandBackOptions, say: Callable[[str], None]) -> bool:
    """One run on real connections. Raises `StillLedError`, `CannotLookError`."""
    try:
        wires = await real_wires(config)
    except (CredentialsError, OSError, ValueError) as error:
        raise CannotLookError(str(error)) from error
    try:
        return await hand_back(config, wires, options, say)
    finally:
        await wires.close()
