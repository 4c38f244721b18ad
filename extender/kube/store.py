"""Cache Pods, Nodes and Namespaces as last seen: reflectors fill the stores, reads cost one look-up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from extender.domain.foreign_pods.foreign_pod import DAEMONS
from extender.domain.gangs.context import GroupRef, JobKey, JobSetAttempt, Successes
from extender.domain.gangs.pod_groups import PodGroupView
from extender.domain.gangs.recognition import group_of
from extender.domain.gangs.successes import success_of
from extender.domain.nodes.slurmds import SlurmdSelector
from extender.domain.ports import PodCache
from extender.domain.views import Container, DeviceClassView, NamespaceView, NodeView, OwnerReference, PodView
from extender.kube.wire.stream import UnreadableItem, View, ViewT

ChangeCallback = Callable[[ViewT | None, ViewT | None], None]
"""`(old, new)`: added `(None, new)`, modified `(old, new)`, removed `(old, None)`."""


class Store(Generic[ViewT]):
    """Objects by UID. An object that was deleted and made again under its name is another object."""

    def __init__(self) -> None:
        self._views: dict[str, ViewT] = {}
        self._unread: set[str] = set()
        """Objects that exist and could not be read; "" if it is unknown which."""

        self._callbacks: list[ChangeCallback[ViewT]] = []
        self._absent: Callable[[Sequence[ViewT]], None] | None = None
        self._synced = asyncio.Event()

    @property
    def synced(self) -> bool:
        """Return whether the first complete list has been read."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        await self._synced.wait()

    def get(self, uid: str) -> ViewT | None:
        """Return one object."""
        return self._views.get(uid)

    def may_exist(self, uid: str) -> bool:
        """Return whether the API server may have the object, even if it could not be read."""
        return uid in self._views or not self._unread.isdisjoint({uid, ""})

    def all(self) -> Sequence[ViewT]:
        """Return every object, in no order."""
        return tuple(self._views.values())

    def __len__(self) -> int:
        return len(self._views)

    def on_change(self, callback: ChangeCallback[ViewT]) -> None:
        """Call `callback(old, new)` on the loop for every change from now on, once the store has it. It must not raise.

        During the first list `synced` is still False.
        """
        self._callbacks.append(callback)

    def on_absent(self, callback: Callable[[Sequence[ViewT]], None]) -> None:
        """Call `callback`, and no other, for objects that are gone only by being absent from a complete list."""
        self._absent = callback

    def replaced(self, views: Sequence[ViewT], unreadable: Sequence[UnreadableItem]) -> None:
        """Adopt a complete list: objects that it lacks were removed.

        An object that could not be read keeps its last state. If one cannot even be identified, nothing is removed: it
        could be any of the missing ones.
        """
        self._unread = {item.identity.uid for item in unreadable}
        self._adopt(views, frozenset(self._unread), tuple(self._views))
        self._synced.set()

    def _adopt(self, views: Sequence[ViewT], unread: frozenset[str], known: Sequence[str]) -> None:
        """Take over listed objects, and drop those of `known` that the list lacks, by UID."""
        present = {view.uid for view in views}
        if "" not in unread:
            self._drop([uid for uid in known if uid not in present and uid not in unread])
        for view in views:
            self.changed(view)

    def changed(self, view: ViewT) -> None:
        """Take over one object."""
        old = self._views.get(view.uid)
        if old is not None:
            if old.resource_version == view.resource_version:
                return
            self._unindex(old)
        self._views[view.uid] = view
        self._unread.discard(view.uid)
        self._index(view)
        self._notify(old, view)

    def removed(self, uid: str, last: ViewT | None) -> None:
        """Forget one object; its last state is reported first, if it is new."""
        self._unread.discard(uid)
        if uid not in self._views:
            return
        if last is not None:
            self.changed(last)
        old = self._views.pop(uid)
        self._unindex(old)
        self._notify(old, None)

    def _drop(self, missing: Sequence[str]) -> None:
        if self._absent is None or not self.synced:
            for uid in missing:
                self.removed(uid, None)
        elif missing:
            gone = [self._views.pop(uid) for uid in missing]
            for view in gone:
                self._unindex(view)
            self._absent(gone)

    def _index(self, view: ViewT) -> None:
        """Index a view that was put into the store (hook of subclasses)."""

    def _unindex(self, view: ViewT) -> None:
        """Remove a view from the indexes before it leaves the store (hook of subclasses)."""

    def _notify(self, old: ViewT | None, new: ViewT | None) -> None:
        for callback in tuple(self._callbacks):
            callback(old, new)


class PodStore(Store[PodView]):
    """Every Pod, also by node and by PodGroup. Reflectors pass Pods through `keep`."""

    def __init__(self, schedulers: Iterable[str], slurmd: SlurmdSelector | None = None) -> None:
        super().__init__()
        self._schedulers = frozenset(schedulers)
        self._slurmd = slurmd
        self._slurmds: dict[str, dict[str, PodView]] = {}
        """By name and UID: the name is the Slurm node's."""

        self._on_node: dict[str, dict[str, PodView]] = {}
        self._naming: dict[GroupRef, dict[str, PodView]] = {}
        """Pods of this scheduler, ended ones too, by the PodGroup that they name."""

        self._succeeded: dict[JobSetAttempt, dict[JobKey, dict[int | str, set[str]]]] = {}
        """UIDs of the Pods of this scheduler that have succeeded, by JobSet, Job and completion index."""

        self._repelling: dict[str, PodView] = {}
        self._users_of_resource_claim: dict[tuple[str, str], dict[str, PodView]] = {}
        """Pods by the namespace and name of a ResourceClaim that they use."""

        self._live_users_of_resource_claim: dict[tuple[str, str], dict[str, PodView]] = {}
        """Those that have not ended."""

        self._unread_in: dict[str, frozenset[str]] = {}
        """Pods that a list of one namespace has and that could not be read, where namespaces are listed one by one."""

    def replaced_in(
        self, namespace: str, views: Sequence[PodView], unreadable: Sequence[UnreadableItem], *, complete: bool
    ) -> None:
        """Adopt a complete list of one namespace. `complete`: each namespace that is read has been listed by now."""
        before = self._unread_in.get(namespace, frozenset())
        uids = self._unread_in[namespace] = frozenset(item.identity.uid for item in unreadable)
        self._unread = (self._unread - before) | uids
        if any("" in unread for unread in self._unread_in.values()):
            self._unread.add("")
        self._adopt(views, uids, [view.uid for view in self._views.values() if view.namespace == namespace])
        if complete:
            self._synced.set()

    def users_of_resource_claim(self, namespace: str, resource_claim: str) -> Sequence[PodView]:
        """Return Pods that use a ResourceClaim, those that have ended too."""
        return tuple(self._users_of_resource_claim.get((namespace, resource_claim), {}).values())

    def live_users_of_resource_claim(self, namespace: str, resource_claim: str) -> Iterable[PodView]:
        """Return Pods that use a ResourceClaim and have not ended, until the store changes; the first costs no more."""
        return self._live_users_of_resource_claim.get((namespace, resource_claim), {}).values()

    def on_node(self, node: str) -> Sequence[PodView]:
        """Return Pods bound to a Kubernetes node that are not over."""
        return tuple(self._on_node.get(node, {}).values())

    def naming(self, group: GroupRef) -> Sequence[PodView]:
        """Return Pods of this scheduler that name a PodGroup, those that have ended too."""
        return tuple(self._naming.get(group, {}).values())

    def named_groups(self) -> Sequence[GroupRef]:
        """Return PodGroups that Pods of this scheduler name, whether they exist or not."""
        return tuple(self._naming)

    def succeeded(self, attempt: JobSetAttempt) -> Successes:
        """Return the Pods of a JobSet and of this scheduler that have succeeded, as long as they exist."""
        return self._succeeded.get(attempt, _NO_SUCCESSES)

    def repelling(self) -> Sequence[PodView]:
        """Return Pods on nodes that have a required anti-affinity, and are not over."""
        return tuple(self._repelling.values())

    def slurmds(self) -> Sequence[PodView]:
        """Return Pods that run a slurmd."""
        return tuple(pod for named in self._slurmds.values() for pod in named.values())

    def slurmds_of(self, slurm_node: str) -> Sequence[PodView]:
        """Return Pods that run the slurmd of this Slurm node."""
        return tuple(self._slurmds.get(slurm_node, {}).values())

    def keep(self, view: PodView) -> PodView:
        """Return the view itself for Pods of this scheduler, else without the fields that only those need."""
        if view.scheduler_name in self._schedulers or (self._slurmd is not None and self._slurmd.selects(view)):
            return view
        return replace(
            view,
            annotations=_NOTHING,
            owner=_DAEMONS.get(view.owner.kind) if view.owner is not None else None,
            node_selector=_NOTHING,
            required_terms=None,
            tolerations=(),
            beyond=(),
            unschedulable="",
            pod_limits=_NOTHING,
            containers=tuple(map(_slim, view.containers)),
            init_containers=tuple(map(_slim, view.init_containers)),
        )

    def _index(self, view: PodView) -> None:
        if self._slurmd is not None and self._slurmd.selects(view):
            self._slurmds.setdefault(view.name, {})[view.uid] = view
        if view.node_name and not view.finished:
            self._on_node.setdefault(view.node_name, {})[view.uid] = view
            if view.anti_affinity:
                self._repelling[view.uid] = view
        if view.scheduler_name in self._schedulers and (group := group_of(view)) is not None:
            self._naming.setdefault(group, {})[view.uid] = view
        if view.scheduler_name in self._schedulers and (success := success_of(view)) is not None:
            places = self._succeeded.setdefault(success.attempt, {}).setdefault(success.job, {})
            places.setdefault(success.place, set()).add(view.uid)
        for resource_claim in _resource_claims_of(view):
            for index in self._user_indexes(view):
                index.setdefault((view.namespace, resource_claim), {})[view.uid] = view

    def _unindex(self, view: PodView) -> None:
        self._repelling.pop(view.uid, None)
        if (group := group_of(view)) is not None:
            naming = self._naming.get(group)
            if naming is not None and naming.pop(view.uid, None) is not None and not naming:
                del self._naming[group]
        self._forget_success(view)
        for resource_claim in _resource_claims_of(view):
            for index in self._user_indexes(view):
                users = index[view.namespace, resource_claim]
                del users[view.uid]
                if not users:
                    del index[view.namespace, resource_claim]
        named = self._slurmds.get(view.name)
        if named is not None and named.pop(view.uid, None) is not None and not named:
            del self._slurmds[view.name]
        there = self._on_node.get(view.node_name)
        if there is not None and there.pop(view.uid, None) is not None and not there:
            del self._on_node[view.node_name]

    def _user_indexes(self, view: PodView) -> Sequence[dict[tuple[str, str], dict[str, PodView]]]:
        """Return the indexes of ResourceClaims in which a Pod is."""
        every = self._users_of_resource_claim
        return (every,) if view.finished else (every, self._live_users_of_resource_claim)

    def _forget_success(self, view: PodView) -> None:
        success = success_of(view)
        jobs = {} if success is None else self._succeeded.get(success.attempt, {})
        if success is None or view.uid not in (uids := jobs.get(success.job, {}).get(success.place, set())):
            return
        uids.discard(view.uid)
        if not uids:
            del jobs[success.job][success.place]
        if not jobs[success.job]:
            del jobs[success.job]
        if not jobs:
            del self._succeeded[success.attempt]


class Named(View, Protocol):
    """The fields that a view of a cluster-wide object has."""

    @property
    def name(self) -> str:
        """Return `metadata.name`."""
        ...


NamedT = TypeVar("NamedT", bound=Named)


class NamedStore(Store[NamedT]):
    """Every object of a cluster-wide kind, also by name."""

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[str, NamedT] = {}

    def named(self, name: str) -> NamedT | None:
        """Return one object."""
        return self._by_name.get(name)

    def names(self) -> frozenset[str]:
        """Return the names of all of them."""
        return frozenset(self._by_name)

    def _index(self, view: NamedT) -> None:
        self._by_name[view.name] = view

    def _unindex(self, view: NamedT) -> None:
        if (there := self._by_name.get(view.name)) is not None and there.uid == view.uid:
            del self._by_name[view.name]


class NodeStore(NamedStore[NodeView]):
    """Every Node."""


class DeviceClassStore(NamedStore[DeviceClassView]):
    """Every DeviceClass."""

    def offers(self, resource: str) -> bool:
        """Return whether some device class offers this extended resource."""
        return bool(self.class_of(resource))

    def class_of(self, resource: str) -> str:
        """Return the name of a device class that offers an extended resource, the first one by name; "" for none."""
        return min((one.name for one in self._views.values() if one.resource == resource), default="")


class NamespaceStore(NamedStore[NamespaceView]):
    """Every Namespace."""

    def labels_of(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of one; `None` where it is not known."""
        found = self.named(name)
        return None if found is None else found.labels


class PodGroupStore(Store[PodGroupView]):
    """Every PodGroup of one kind, also by namespace and name."""

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[tuple[str, str], PodGroupView] = {}

    def named(self, namespace: str, name: str) -> PodGroupView | None:
        """Return one PodGroup."""
        return self._by_name.get((namespace, name))

    def _index(self, view: PodGroupView) -> None:
        self._by_name[view.namespace, view.name] = view

    def _unindex(self, view: PodGroupView) -> None:
        if (there := self._by_name.get((view.namespace, view.name))) is not None and there.uid == view.uid:
            del self._by_name[view.namespace, view.name]


def _resource_claims_of(view: PodView) -> set[str]:
    return {one.resource_claim for one in view.resource_claims if one.resource_claim} | (
        {view.extended_resource_claim} - {""}
    )


_NOTHING: Mapping[str, str] = {}
_NO_SUCCESSES: Successes = {}
_DAEMONS = {kind: OwnerReference("", kind, "", "") for kind in DAEMONS}
"""All that is kept of the owners of others' Pods: whether they belong to their Node."""


def _slim(container: Container) -> Container:
    return replace(container, limits=_NOTHING)


_POD_STORE_IS_A_POD_CACHE: type[PodCache] = PodStore
