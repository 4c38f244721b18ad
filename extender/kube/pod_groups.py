"""Mirror the PodGroups of the API groups that the site reads, where the API server serves them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection

from extender.domain.gangs.context import GroupRef, GroupView
from extender.domain.gangs.membership import GangSource
from extender.domain.gangs.pod_groups import INITIALLY_SCHEDULED, POD_GROUP_KINDS, SCHEDULED, PodGroupApi, PodGroupView
from extender.kube.connection import ApiConnection
from extender.kube.reflector import Reflector
from extender.kube.served import ServedKind
from extender.kube.store import PodGroupStore
from extender.kube.wire.stream import POD_GROUPS

PLURAL = "podgroups"


class PodGroupInformers:
    """The informers of PodGroups, one for each API group in `apis`."""

    def __init__(self, connection: ApiConnection, apis: Collection[PodGroupApi], *, rng: random.Random) -> None:
        self._stores: dict[GangSource, PodGroupStore] = {}
        self._reflectors: dict[PodGroupApi, Reflector[PodGroupView]] = {}
        self._served: dict[PodGroupApi, ServedKind] = {}
        self._callbacks: list[Callable[[GroupRef], None]] = []
        for kind in POD_GROUP_KINDS:
            if kind.api in apis:
                store = self._stores[kind.source] = PodGroupStore()
                store.on_change(self._changed)
                served = ServedKind(connection, kind.api, kind.versions, PLURAL)
                self._served[kind.api] = served
                self._reflectors[kind.api] = Reflector(
                    connection,
                    f"/apis/{kind.api}/{kind.versions[0]}/{PLURAL}",
                    POD_GROUPS[kind.api],
                    store,
                    rng=rng,
                    optional=True,
                    locate=served.path,
                )

    @property
    def sources(self) -> frozenset[GangSource]:
        """Return the sources of gangs whose PodGroups are read."""
        return frozenset(self._stores)

    @property
    def synced(self) -> bool:
        """Return whether the PodGroups at the start are known."""
        return all(store.synced for store in self._stores.values())

    @property
    def trouble(self) -> str:
        """Return why PodGroups may be outdated; "": they are up to date, or their kind is not served."""
        return "; ".join(filter(None, (one.status.trouble for one in self._reflectors.values())))

    def group(self, ref: GroupRef) -> GroupView | None:
        """Return a PodGroup as recognition needs it; `None`: there is none of this name."""
        found = self.named(ref)
        return None if found is None else GroupView(found.uid, found.least)

    def named(self, ref: GroupRef) -> PodGroupView | None:
        """Return a PodGroup; `None`: there is none of this name, or its kind is not read."""
        store = self._stores.get(ref.source)
        return None if store is None else store.named(ref.namespace, ref.name)

    @property
    def condition(self) -> str:
        """Return the type of the condition that Kubernetes' PodGroups have in the version that is served."""
        return SCHEDULED if self.version(PodGroupApi.KUBERNETES) == "v1alpha2" else INITIALLY_SCHEDULED

    def version(self, api: PodGroupApi) -> str:
        """Return the version of a kind that the API server serves, as it was looked up last."""
        return self._served[api].version

    def on_change(self, callback: Callable[[GroupRef], None]) -> None:
        """Call `callback` for each PodGroup that appears, is gone, or asks for another number of members."""
        self._callbacks.append(callback)

    async def wait_synced(self) -> None:
        """Wait for the first list of each kind, or for the answer that it is not served."""
        for store in self._stores.values():
            await store.wait_synced()

    async def relist(self) -> None:
        """List all of them once more, independently of the watches."""
        await asyncio.gather(*(one.relist() for one in self._reflectors.values()))

    async def run(self) -> None:
        """Mirror until cancelled."""
        async with asyncio.TaskGroup() as group:
            for api, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"PodGroups of {api}")

    def _changed(self, old: PodGroupView | None, new: PodGroupView | None) -> None:
        known = new or old
        if known is None or (old is not None and new is not None and old.least == new.least):
            return
        for callback in tuple(self._callbacks):
            callback(known.ref)
