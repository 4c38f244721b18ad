"""One process put together, and who hears of what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

from extender.assembly.adapters import Adapters
from extender.assembly.io_context import IoContext
from extender.assembly.job_controllers import JobControllers
from extender.assembly.keys import hook_keys, site_key
from extender.assembly.node_controllers import NodeControllers
from extender.assembly.pod_controllers import PodControllers
from extender.config.derive import brake, owner_of_token, timing
from extender.config.document import ExtenderConfiguration
from extender.controllers.absent_pods import AbsentPods
from extender.controllers.pods import PodController
from extender.controllers.translations import NO_POLICY, Translations
from extender.domain.jobs.identity import hook_token
from extender.domain.placeholder import State
from extender.domain.placing.candidates import DEVICE_CLASS as DEVICE_CLASS_PREFIX
from extender.domain.pods.claim import Claims
from extender.domain.ports import Announcement
from extender.domain.views import DeviceClassView, NamespaceView, NodeView, PodView
from extender.domain.wellknown import Reason
from extender.engine.binding import Scheduling
from extender.engine.cooperative_yield import CooperativeYield
from extender.engine.engine import Engine
from extender.engine.engine_ports import EnginePorts
from extender.engine.options import EngineOptions
from extender.kube.owners import OwnerReader
from extender.slurm.asking import ObserveRequest, unobserved
from extender.slurm.placeholder import HookSettings

NAMESPACES_WITHIN = 10.0
"""Seconds for which a start waits for the first list of Namespaces, where the policy asks for their labels."""


class Assembly:
    """Everything that runs, and how its parts know each other.

    `cluster` tells this cluster's jobs from another's. `validate` holds the invariants after every step, for tests.
    """

    def __init__(
        self,
        config: ExtenderConfiguration,
        io_context: IoContext,
        cluster: str,
        *,
        observe_request: ObserveRequest = unobserved,
        observe_poll: Callable[[float, bool], None] = lambda _duration, _ok: None,
        validate: bool = False,
    ) -> None:
        self.config = config
        self.io_context = io_context
        self.cluster = cluster
        self.hook_keys = hook_keys(config) or (io_context.fresh_key,)
        self.site_key = site_key(config)
        outside = Adapters(config, io_context, cluster, _hook_settings(config, self.hook_keys[0]), observe_request)
        self.informers, self.policy_file, self.announcer = outside.informers, outside.policy_file, outside.announcer
        caller, schedulers = owner_of_token(config), [config.scheduler.name]
        self.engine = Engine(
            EngineOptions(
                cluster=cluster,
                scheduler=config.scheduler.name,
                claims=Claims(self.hook_keys, cluster),
                timing=timing(config),
                lane_workers=config.limits.requests,
                validate=validate,
                dry_run=config.orphans.dry_run,
                caller=None if caller is None else caller.uid,
            ),
            EnginePorts(io_context.clock, outside.jobs, outside.pod_writer, self.announcer, self.informers.pods),
            brake(config),
        )
        self.pod_controller = PodController(
            self.engine,
            cache=self.informers.pods,
            owners=OwnerReader(io_context.kubernetes, rng=io_context.rng),
            announcer=self.announcer,
            clock=outside.api_clock,
            translations=Translations(
                lambda: self.policy_file.policy,
                outside.api_clock,
                self.informers.namespaces.labels_of,
                lambda: self.engine.guarded,
            ),
            schedulers=schedulers,
            missing=AbsentPods(
                io_context.clock, brake(config), config.orphans.many_grace, dry_run=config.orphans.dry_run
            ),
            fresh=lambda: not self.informers.pod_reflector.status.trouble,
        )
        self.about_nodes = NodeControllers(self.engine, outside, settled=self._settled, fresh=self._fresh)
        self.about_pods = PodControllers(
            self.engine,
            outside,
            fresh=self._fresh,
            licensed=self._licensed,
            polled=lambda: (self.about_jobs.controller.polled_at, self.about_jobs.controller.poll_error),
        )
        self.about_jobs = JobControllers(
            self.engine, outside, self.about_nodes, fresh=self._fresh, observe_poll=observe_poll
        )
        self.scheduling = Scheduling(
            self.engine,
            outside.pod_writer,
            self.informers.pods,
            schedulers,
            lambda: self.ready,
            other_profiles=config.scheduler.other_profiles,
        )
        self._acquaint()

    def _acquaint(self) -> None:
        """Tell each part who hears of what it sees."""
        self.announcer.busy = self.engine.units.many_being_placed
        self.engine.elsewhere = self._elsewhere
        self.engine.guards_changed = self.pod_controller.reconsider
        self.pod_controller.left = self.about_nodes.removals.removed
        informers = self.informers
        informers.pods.on_change(self._pod_changed)
        informers.pods.on_change(self.about_jobs.departures.changed)
        informers.pods.on_absent(self._pods_absent)
        informers.nodes.on_change(self._node_changed)
        informers.namespaces.on_change(self._namespace_changed)
        informers.device_classes.on_change(self._class_changed)
        self.policy_file.changed = self.pod_controller.reconsider
        self.policy_file.judged = self._policy_judged

    def watchers(self) -> dict[str, Coroutine[None, None, None]]:
        """What every replica runs: it knows what is, and changes nothing."""
        informers = self.informers
        parts = {
            "pods": informers.pod_reflector.run(),
            "nodes": informers.node_reflector.run(),
            "device classes": informers.class_reflector.run(),
            "node controller": self.about_nodes.controller.run(),
        }
        if self.policy_file.given:
            parts |= {"policy": self.policy_file.run(), "namespaces": informers.namespace_reflector.run()}
        return parts

    def writers(self) -> dict[str, Coroutine[None, None, None]]:
        """What runs besides where it may be acted upon."""
        return {
            "engine": self.engine.run(),
            "pod controller": self.pod_controller.run(),
            **self.about_pods.parts(),
            **self.about_nodes.parts(),
            **self.about_jobs.parts(),
            "events": self.announcer.run(),
        }

    @property
    def ready(self) -> bool:
        """Everything that was in the cluster at the start is known and taken up. Never depends on Slurm."""
        return self.informers.synced and self.pod_controller.ready

    def release_brake(self) -> None:
        """A person has looked: what is held back because so much is missing may be ended, in both directions."""
        self.engine.missing_jobs.release()
        self.about_jobs.orphans.release()
        self.about_jobs.guests.release()
        self.pod_controller.release()

    async def lead(self, epoch: int) -> None:
        """Begin to write in this epoch.

        Everything is listed once more, as at a start: a watch that fell behind would show Pods as they were before the
        last words of the leader before this one.
        """
        self.engine.identity.epoch = epoch
        await self.informers.relist()

    async def take_up(self) -> None:
        """Wait for the first lists, then take up every Pod of ours that is in them."""
        pods = self.informers.pods
        await self.informers.wait_synced()
        self.about_nodes.controller.remap()
        await asyncio.sleep(0)  # with thousands of Nodes that was work enough at a time
        await self._namespaces_known()
        await self.pod_controller.adopt(pods.all())
        turns = CooperativeYield()
        for pod in pods.all():
            await turns.maybe_yield()
            if (now := pods.get(pod.uid)) is not None:
                self.about_pods.pod_changed(None, now)
        self.about_pods.waking.taken_up()
        self.about_pods.starts.taken_up()

    async def _namespaces_known(self) -> None:
        """Wait for the labels that the policy asks for, though not for ever: what runs has to be taken up."""
        policy = self.policy_file.policy
        if policy is not None and policy.pods.asks_of_namespaces:
            with suppress(TimeoutError):
                async with asyncio.timeout(NAMESPACES_WITHIN):
                    await self.informers.namespaces.wait_synced()

    def _namespace_changed(self, old: NamespaceView | None, new: NamespaceView | None) -> None:
        policy = self.policy_file.policy
        if new is None or policy is None or not policy.pods.asks_of_namespaces:
            return
        if old is None or old.labels != new.labels:
            self.pod_controller.reconsider(new.name)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        slurmd = self.about_nodes.pod_changed(old, new)
        if self.informers.pods.synced:
            if not slurmd:
                self.about_jobs.foreign_pod_changed(old, new)
            self.pod_controller.changed(old, new)
            if self.pod_controller.ready:
                self.about_pods.pod_changed(old, new)

    def _pods_absent(self, pods: Sequence[PodView]) -> None:
        self.pod_controller.absent(pods)
        self.about_pods.absent(pods)
        self.about_jobs.absent(pods)
        self.about_nodes.controller.slurmd_changed()

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        if self.informers.nodes.synced:
            self.about_nodes.node_changed(old, new)
            self.about_pods.node_changed(old, new)

    def _policy_judged(self, trouble: str) -> None:
        """Tell people of a policy file that cannot be used, where they find it: on our own Pod."""
        own = next((pod for pod in self.informers.pods.all() if pod.name == self.io_context.host), None)
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
            self.about_pods.gates.classes_changed(self.informers.pods.all())

    def _elsewhere(self, resource: str) -> bool:
        """No node has to have it: a licence, or devices that kube-scheduler itself looks for."""
        by_class = resource.startswith(DEVICE_CLASS_PREFIX) or self.informers.device_classes.offers(resource)
        return by_class or self._licensed(resource)

    def _licensed(self, resource: str) -> bool:
        policy = self.policy_file.policy
        return policy is not None and policy.licensed(resource)

    def _fresh(self) -> bool:
        """What is known of Pods and Nodes is up to date."""
        return self.ready and not self.informers.trouble

    def _settled(self) -> bool:
        return self.ready and not self.engine.units.in_state(State.UNSURE) and self.about_jobs.guests.settled


def _hook_settings(config: ExtenderConfiguration, key: bytes) -> HookSettings:
    hooks = config.hooks
    return HookSettings(
        url=str(hooks.url or ""),
        wait_s=int(hooks.wait),
        token=lambda mark: hook_token(key, mark),
        warning_s=int(hooks.warning),
    )
