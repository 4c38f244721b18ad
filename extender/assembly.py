"""One process put together: adapters, engine, controllers. `runtime` runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from extender.config.derive import (
    brake,
    counts_names,
    external_rules,
    guest_policy,
    mark_rules,
    owner_of_token,
    patience,
    slurmd_selector,
    timing,
)
from extender.config.document import ExtenderConfiguration
from extender.controllers.claims import ClaimController
from extender.controllers.clearance import Clearance
from extender.controllers.departures import Departures
from extender.controllers.explanations import Explanations
from extender.controllers.external_nodes import ExternalNodeController
from extender.controllers.fences import FenceController
from extender.controllers.gates import GateController
from extender.controllers.guests import GuestController, GuestTiming
from extender.controllers.health import HealthController
from extender.controllers.jobs import JobController, PollOptions
from extender.controllers.missing import MissingPods
from extender.controllers.native_jobs import NativeJobs
from extender.controllers.node_marks import MarkController
from extender.controllers.nodes import NodeController
from extender.controllers.orphans import OrphanController, OrphanOptions
from extender.controllers.overcommitment import Overcommitment
from extender.controllers.pods import PodController
from extender.controllers.records import RecordController
from extender.controllers.refresh import RefreshOptions
from extender.controllers.removals import RemovalController
from extender.controllers.starts import StartController, StartLimits
from extender.controllers.tolerations import TolerationWatch
from extender.controllers.translations import NO_POLICY, Translations
from extender.controllers.waking import WakeController
from extender.domain.candidates import DEVICE_CLASS as DEVICE_CLASS_PREFIX
from extender.domain.drains import drainer
from extender.domain.identity import hook_token
from extender.domain.node_marks import MarkRules
from extender.domain.placeholder import State
from extender.domain.views import DeviceClassView, NamespaceView, NodeView, PodView
from extender.domain.wellknown import Reason
from extender.engine.binding import Scheduling
from extender.engine.carry import Outside
from extender.engine.engine import Engine, EngineOptions
from extender.engine.turns import Turns
from extender.kube.announce import EventWriter
from extender.kube.api_clock import ApiClock
from extender.kube.lease import NodeLeases
from extender.kube.node_writes import NodeWriter
from extender.kube.owners import OwnerReader
from extender.kube.pod_reads import PodReader
from extender.kube.reflector import Reflector
from extender.kube.store import DeviceClassStore, NamespaceStore, NodeStore, PodStore
from extender.kube.writes import PodWriter
from extender.policy_file import PolicyFile
from extender.ports import Announcement
from extender.slurm.asking import ObserveRequest, unobserved
from extender.slurm.external_nodes import Registrar
from extender.slurm.guests import Guests
from extender.slurm.jobs import Jobs
from extender.slurm.nodes import Nodes
from extender.slurm.placeholder import HookSettings
from extender.wire.stream import DEVICE_CLASS, NAMESPACE, NODE, POD
from extender.wires import Wires

DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
"""Kubernetes 1.34 and later; the field that matters is from there on too (KEP-5004)."""

NAMESPACES_WITHIN = 10.0
"""Seconds for which a start waits for the first list of Namespaces, where the policy asks for their labels."""


class KeyFileError(Exception):
    """A key of the hooks cannot be read; the text says which file and why."""


class Assembly:
    """Everything that runs, and how its parts know each other.

    `cluster` tells this cluster's jobs from another's. `validate` holds the invariants after every step, for tests.
    """

    def __init__(
        self,
        config: ExtenderConfiguration,
        wires: Wires,
        cluster: str,
        *,
        observe_request: ObserveRequest = unobserved,
        observe_poll: Callable[[float, bool], None] = lambda _duration, _ok: None,
        validate: bool = False,
    ) -> None:
        self.config = config
        self.wires = wires
        self.cluster = cluster
        schedulers, owner = [config.scheduler.name], drainer(cluster, config.scheduler.name)
        kubernetes, clock = wires.kubernetes, wires.clock
        api_clock = ApiClock(clock)
        kubernetes.answered = api_clock.answered
        self.hook_key = hook_key(config) or wires.fresh_key
        self.site_key = _read_key(config.hooks.site_key_file)
        self.slurmd = slurmd_selector(config)
        self.pods = PodStore(schedulers, self.slurmd)
        self.nodes = NodeStore()
        self.namespaces = NamespaceStore()
        self.device_classes = DeviceClassStore()
        self.policy_file = PolicyFile(config)
        self.announcer = EventWriter(kubernetes, clock=clock, instance=config.leader_election.identity or wires.host)
        self.pod_writer = PodWriter(
            kubernetes, clock=api_clock, rng=wires.rng, max_grace_s=int(config.limits.max_grace)
        )
        self.jobs = Jobs(
            wires.slurm,
            clock,
            hooks=self._hook_settings(),
            observe_request=observe_request,
        )
        self.slurm_nodes = Nodes(
            wires.slurm,
            clock,
            send_user_signal=config.slurm.send_user_signal,
            preempting_qos=frozenset(config.slurm.preempting_qos),
            default_partition=config.slurm.default_partition or "",
            external_anywhere=config.jobs.external_anywhere,
            owner=owner,
            observe_request=observe_request,
        )
        limits, caller = config.limits, owner_of_token(config)
        self.engine = Engine(
            EngineOptions(
                cluster=cluster,
                scheduler=config.scheduler.name,
                timing=timing(config),
                lane_workers=limits.requests,
                validate=validate,
                dry_run=config.orphans.dry_run,
                caller=None if caller is None else caller.uid,
            ),
            Outside(clock, self.jobs, self.pod_writer, self.announcer, self.pods),
            brake(config),
        )
        self.announcer.busy = self.engine.many_being_placed
        self.pod_controller = PodController(
            self.engine,
            cache=self.pods,
            owners=OwnerReader(kubernetes, rng=wires.rng),
            announcer=self.announcer,
            clock=api_clock,
            translations=Translations(lambda: self.policy_file.policy, api_clock, self.namespaces.labels_of),
            schedulers=schedulers,
            missing=MissingPods(clock, brake(config), config.orphans.many_grace, dry_run=config.orphans.dry_run),
            fresh=lambda: not self.pod_reflector.status.trouble,
        )
        self.node_controller = NodeController(
            self.engine,
            self.slurm_nodes,
            clock,
            self.announcer,
            kube_nodes=self._kube_nodes,
            slurmds=self._slurmds,
            by_name=counts_names(config),
            awaited=external_rules(config).meant,
            settled=self._settled,
            interval=limits.nodes_interval,
            longest_end=limits.max_grace,
            owner=owner,
        )
        self.health_controller = HealthController(
            self.engine,
            self.node_controller,
            clock,
            config.nodes.drain.rules,
            kube_node=self.nodes.named,
            slurmds=self.pods.slurmds_of,
        )
        self._mark_nodes(mark_rules(config, owner), api_clock)
        self.external_node_controller = ExternalNodeController(
            self.engine,
            self.node_controller,
            Registrar(wires.slurm, clock, owner, observe_request=observe_request),
            clock,
            self.announcer,
            rules=external_rules(config),
            patience=patience(config),
            kube_nodes=self.nodes,
            on_node=self.pods.on_node,
            settled=self._settled,
            fresh=self._fresh,
        )
        self.fence_controller = FenceController(self.engine, self.node_controller, clock)
        self.clearance = Clearance(self.engine, self.node_controller, clock, longest_grace_s=limits.max_grace)
        self.gate_controller = GateController(
            self.engine,
            self.pod_writer,
            schedulers=schedulers,
            nodes=self.nodes.all,
            repelling=self.pods.repelling,
            licensed=self._licensed,
            by_class=self.device_classes.offers,
        )
        self.wake_controller = WakeController(self.engine, self.pod_writer, self.pods, clock)
        self.record_controller = RecordController(self.engine, self.pod_writer, self.pods, self.announcer, clock)
        self.start_controller = StartController(
            self.engine,
            self.pod_writer,
            PodReader(kubernetes, rng=wires.rng),
            cache=self.pods,
            announcer=self.announcer,
            clock=api_clock,
            limits=StartLimits(config.starts.limit, config.starts.evict),
            policy=lambda: self.policy_file.policy,
            namespace_labels=self.namespaces.labels_of,
            fresh=self._fresh,
        )
        self.claim_controller = ClaimController(self.engine, self.pods, clock, fresh=self._fresh)
        self.removal_controller = RemovalController(
            self.engine,
            self.node_controller,
            clock,
            self.announcer,
            NodeLeases(kubernetes),
            kube_nodes=self._kube_nodes,
        )
        self.departures = Departures(config.scheduler.name)
        self.orphan_controller = OrphanController(
            self.engine,
            self.jobs,
            self.pods,
            PodReader(kubernetes, rng=wires.rng),
            clock,
            brake=brake(config),
            fresh=self._fresh,
            left_behind=self.removal_controller.left_behind,
            departed=self.departures.get,
            options=OrphanOptions(config.orphans.grace, config.orphans.many_grace, config.orphans.dry_run),
        )
        self._hold_foreign_pods(observe_request)
        self.job_controller = JobController(
            self.engine,
            self.jobs,
            clock,
            PollOptions(
                least=limits.poll_interval,
                most=limits.poll_interval_most,
                refresh=RefreshOptions(limits.refresh_rate, 4 * limits.refresh_rate),
            ),
            observe_poll=observe_poll,
            observe_states=self._polled,
            over=self.fence_controller.over,
        )
        self.explanations = Explanations(
            self.engine,
            self.pod_writer,
            self.pods,
            self.announcer,
            api_clock,
            policy_trouble=lambda: "" if self.policy_file.policy is not None else self.policy_file.trouble,
            polled=lambda: (self.job_controller.polled_at, self.job_controller.poll_error),
        )
        self.scheduling = Scheduling(self.engine, self.pod_writer, self.pods, schedulers, lambda: self.ready)
        self.pod_reflector = Reflector(kubernetes, "/api/v1/pods", POD, self.pods, rng=wires.rng, keep=self.pods.keep)
        self.node_reflector = Reflector(kubernetes, "/api/v1/nodes", NODE, self.nodes, rng=wires.rng)
        self.namespace_reflector = Reflector(
            kubernetes, "/api/v1/namespaces", NAMESPACE, self.namespaces, rng=wires.rng
        )
        self.class_reflector = Reflector(
            kubernetes, DEVICE_CLASSES, DEVICE_CLASS, self.device_classes, rng=wires.rng, optional=True
        )
        self._acquaint()

    def _acquaint(self) -> None:
        """Tell each part who hears of what it sees."""
        self.engine.elsewhere = self._elsewhere
        self.pod_controller.left = self.removal_controller.removed
        self.node_controller.found = self._drain_found
        self.pods.on_change(self._pod_changed)
        self.pods.on_change(self.departures.changed)
        self.pods.on_absent(self._pods_absent)
        self.nodes.on_change(self._node_changed)
        self.namespaces.on_change(self._namespace_changed)
        self.device_classes.on_change(self._class_changed)
        self.policy_file.changed = self.pod_controller.reconsider
        self.policy_file.judged = self._policy_judged

    def _mark_nodes(self, marks: MarkRules, api_clock: ApiClock) -> None:
        """What is written on Nodes, and what knows when."""
        clock = self.wires.clock
        self.native_jobs = NativeJobs(self.engine, self.jobs, clock, enabled=bool(marks.lock), owner=marks.owner)
        self.mark_controller = MarkController(
            self.engine,
            NodeWriter(self.wires.kubernetes, clock=api_clock),
            clock,
            self.announcer,
            marks,
            kube_nodes=self.nodes.all,
            kube_node=self.nodes.named,
            slurmds=self._slurmds,
            in_pods=bool(self.slurmd.labels),
            native=self.native_jobs,
        )
        self.toleration_watch = TolerationWatch(self.announcer, [self.config.scheduler.name], marks.tolerated)

    def _hold_foreign_pods(self, observe_request: ObserveRequest) -> None:
        config, clock = self.config, self.wires.clock
        self.guest_controller = GuestController(
            self.engine,
            Guests(self.wires.slurm, self.jobs, clock, observe_request=observe_request),
            self.node_controller,
            cache=self.pods,
            pods=PodReader(self.wires.kubernetes, rng=self.wires.rng),
            clock=clock,
            policy=guest_policy(config),
            options=config.foreign_pods.options,
            workers=config.foreign_pods.requests,
            brake=brake(config),
            all_pods=self._foreign_pods,
            fresh=self._fresh,
            timing=GuestTiming(config.orphans.grace, config.orphans.many_grace),
        )
        self.overcommitment = Overcommitment(self.engine, self.guest_controller, self.announcer, self.nodes.named)
        self.orphan_controller.stranger = self.guest_controller.found
        self.orphan_controller.known_elsewhere = lambda: self.guest_controller.jobs

    @property
    def warm(self) -> bool:
        """What was in the cluster at the start is known, though perhaps not taken up."""
        return self.pods.synced and self.nodes.synced

    @property
    def ready(self) -> bool:
        """Everything that was in the cluster at the start is known and taken up. Never depends on Slurm."""
        return self.pods.synced and self.nodes.synced and self.pod_controller.ready

    def release_brake(self) -> None:
        """A person has looked: what is held back because so much is missing may be ended, in both directions."""
        self.engine.vanishing.release()
        self.orphan_controller.release()
        self.guest_controller.release()
        self.pod_controller.release()

    async def lead(self, epoch: int) -> None:
        """Begin to write in this epoch.

        Everything is listed once more, as at a start: a watch that fell behind would show Pods as they were before the
        last words of the leader before this one.
        """
        self.engine.lead(epoch)
        await asyncio.gather(self.pod_reflector.relist(), self.node_reflector.relist())

    async def take_up(self) -> None:
        """Wait for the first lists, then take up every Pod of ours that is in them."""
        await self.pods.wait_synced()
        await self.nodes.wait_synced()
        self.node_controller.remap()
        await self._namespaces_known()
        await self.pod_controller.adopt(self.pods.all)
        turns = Turns()
        for pod in self.pods.all():
            await turns.give()
            if (now := self.pods.get(pod.uid)) is not None:
                self.gate_controller.pod_changed(None, now)
                self.toleration_watch.pod_changed(None, now)
        self.wake_controller.taken_up()

    async def _namespaces_known(self) -> None:
        """Wait for the labels that the policy asks for, though not for ever: what runs has to be taken up."""
        policy = self.policy_file.policy
        if policy is not None and policy.pods.asks_of_namespaces:
            with suppress(TimeoutError):
                async with asyncio.timeout(NAMESPACES_WITHIN):
                    await self.namespaces.wait_synced()

    def _namespace_changed(self, old: NamespaceView | None, new: NamespaceView | None) -> None:
        policy = self.policy_file.policy
        if new is None or policy is None or not policy.pods.asks_of_namespaces:
            return
        if old is None or old.labels != new.labels:
            self.pod_controller.reconsider(new.name)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        slurmds = [pod for pod in (old, new) if pod is not None and self.slurmd.selects(pod)]
        if slurmds:
            self.node_controller.slurmd_changed()
            self.health_controller.slurmd_changed(slurmds[0].name)
        self.external_node_controller.pod_changed(old, new)
        if self.pods.synced:
            if not slurmds:
                self.guest_controller.pod_changed(old, new)
            self.pod_controller.changed(old, new)
            if self.pod_controller.ready:
                self.gate_controller.pod_changed(old, new)
                self.toleration_watch.pod_changed(old, new)

    def _foreign_pods(self) -> Sequence[PodView]:
        """Pods that are not ours to place, nor a slurmd: that one is Slurm's own."""
        ours = self.config.scheduler.name
        return [pod for pod in self.pods.all() if pod.scheduler_name != ours and not self.slurmd.selects(pod)]

    def _pods_absent(self, pods: Sequence[PodView]) -> None:
        self.pod_controller.absent(pods)
        self.guest_controller.absent(pods)
        self.node_controller.slurmd_changed()

    def _slurmds(self) -> Sequence[PodView] | None:
        """Pods that run a slurmd; `None`: not known yet."""
        return self.pods.slurmds() if self.pods.synced or not self.slurmd.labels else None

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        if self.nodes.synced:
            self.node_controller.kube_changed(old, new)
            if (node := new or old) is not None:
                self.health_controller.node_changed(node.name)
                self.mark_controller.node_changed(node.name)
                self.external_node_controller.node_changed(node.name)
            self.gate_controller.node_changed(old, new)

    def _policy_judged(self, trouble: str) -> None:
        """Tell people of a policy file that cannot be used, where they find it: on our own Pod."""
        own = next((pod for pod in self.pods.all() if pod.name == self.wires.host), None)
        if own is None or not self.pod_controller.ready:
            return  # not in a Pod, or not leading
        stays = "The last good one stays in force" if self.policy_file.policy is not None else NO_POLICY.rstrip(".")
        text = (
            f"The policy file cannot be used: {trouble}. {stays}." if trouble else "The policy file is in force again."
        )
        reason = Reason.POLICY_BROKEN if trouble else Reason.POLICY_MENDED
        said = Announcement("Pod", own.namespace, own.name, own.uid, reason, text, warning=bool(trouble))
        self.announcer.announce(said)

    def _class_changed(self, old: DeviceClassView | None, new: DeviceClassView | None) -> None:
        if self.ready and (old.resource if old else "") != (new.resource if new else ""):
            self.gate_controller.classes_changed(self.pods.all())

    def _elsewhere(self, resource: str) -> bool:
        """No node has to have it: a licence, or devices that kube-scheduler itself looks for."""
        by_class = resource.startswith(DEVICE_CLASS_PREFIX) or self.device_classes.offers(resource)
        return by_class or self._licensed(resource)

    def _licensed(self, resource: str) -> bool:
        policy = self.policy_file.policy
        return policy is not None and policy.licensed(resource)

    def _polled(self, states: Mapping[int, frozenset[str]]) -> None:
        self.guest_controller.polled(states)
        self.orphan_controller.polled(states)
        self.native_jobs.polled(states)

    def _drain_found(self, slurm_node: str, reason: str) -> None:
        self.removal_controller.found(slurm_node, reason)
        self.health_controller.found(slurm_node, reason)

    def _kube_nodes(self) -> dict[str, NodeView]:
        return {node.name: node for node in self.nodes.all()}

    def _fresh(self) -> bool:
        """What is known of Pods and Nodes is up to date."""
        return self.ready and not self.pod_reflector.status.trouble and not self.node_reflector.status.trouble

    def _settled(self) -> bool:
        return self.ready and not self.engine.in_state(State.UNSURE) and self.guest_controller.settled

    def _hook_settings(self) -> HookSettings:
        hooks = self.config.hooks
        key = self.hook_key
        return HookSettings(
            url=str(hooks.url or ""),
            wait_s=int(hooks.wait),
            token=lambda mark: hook_token(key, mark),
            warning_s=int(hooks.warning),
        )


def hook_key(config: ExtenderConfiguration) -> bytes | None:
    """The key of the jobs' tokens; `None` where the site gives none. Raises `KeyFileError`."""
    hooks = config.hooks
    if hooks.key is not None:
        return hooks.key.get_secret_value().encode()
    return _read_key(hooks.key_file)


def _read_key(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise KeyFileError(f"key file {path}: {error.strerror}") from error
    if not key:
        raise KeyFileError(f"key file {path} is empty: it must hold a key")
    return key
