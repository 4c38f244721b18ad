"""A ledger of devices and their holders, by every version of every ResourceClaim and Pod in the order of etcd."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
Device = tuple[str, str]
"""Pool and name."""

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})

SHOWN_AFTER = 50
"""Resource versions after which a kube-scheduler has received a write, in a burst on a busy machine."""

REMINDED_AFTER = 500
"""Resource versions after which a device that was forgotten has a reminder. On a busy machine 125 were seen."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A Pod at the instant of its Binding."""

    name: str
    node: str
    devices: tuple[Device, ...]
    annotations: Mapping[str, str]


@dataclass(slots=True)
class DeviceLedger:
    """Hold the result of a sequence of changes, and the violations on the way."""

    bound: dict[str, Bound] = field(default_factory=dict)
    """By UID of the Pod."""

    finished: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    """Devices that two Pods on nodes had at one instant, although every kube-scheduler knew the first holder."""

    shared_while_forgotten: set[str] = field(default_factory=set)
    """Devices that two Pods had because kube-scheduler had forgotten the first holder (docs/devices.md, Reminders)."""

    not_reminded: set[Device] = field(default_factory=set)
    """Devices that a ResourceClaim held for long after kube-schedulers had forgotten that."""

    moved: list[str] = field(default_factory=list)
    """Pods whose devices were others after their Binding."""

    contested: set[tuple[Device, frozenset[str]]] = field(default_factory=set)
    """Devices in two ResourceClaims of which one has no Pod on a node (yet)."""

    _resource_claims: dict[str, Json] = field(default_factory=dict)
    _pods: dict[str, Json] = field(default_factory=dict)
    _forgotten: dict[Device, int] = field(default_factory=dict)
    """Devices that a ResourceClaim holds, since another with it was freed; none was allocated with it since."""

    _reminded: dict[Device, int] = field(default_factory=dict)
    """When a device that was forgotten was allocated again."""

    _since: dict[tuple[str, Device], tuple[int, bool]] = field(default_factory=dict)
    """When a ResourceClaim, by UID, got a device, and whether kube-scheduler had forgotten its holder then."""

    def feed(self, changes: Iterable[Json]) -> None:
        """Take over changes, `type` and `object` each, the oldest first."""
        for change in changes:
            found = change["object"]
            if found["kind"] == "ResourceClaim":
                self._note_allocation(found, gone=change["type"] == "DELETED")
            there = self._resource_claims if found["kind"] == "ResourceClaim" else self._pods
            if change["type"] == "DELETED":
                there.pop(found["metadata"]["uid"], None)
            else:
                there[found["metadata"]["uid"]] = found
            if found["kind"] == "Pod":
                self._note(found)
            self._judge()

    def resource_claims_of(self, uid: str) -> list[Json]:
        """Return the ResourceClaims that are reserved for a Pod."""
        return [resource_claim for resource_claim in self._resource_claims.values() if uid in _reserved(resource_claim)]

    def _note_allocation(self, resource_claim: Json, *, gone: bool) -> None:
        """Follow the set of devices that a kube-scheduler keeps without counts."""
        uid, version = resource_claim["metadata"]["uid"], int(resource_claim["metadata"]["resourceVersion"])
        before, after = (
            set(_devices(self._resource_claims.get(uid, {}))),
            set() if gone else set(_devices(resource_claim)),
        )
        for device in before - after:
            held = any(device in _devices(other) for key, other in self._resource_claims.items() if key != uid)
            if held:
                self._forgotten[device] = version
            else:
                self._forgotten.pop(device, None)
        for device in after - before:
            lately = version - self._reminded.get(device, -SHOWN_AFTER) < SHOWN_AFTER
            self._since[uid, device] = version, lately or device in self._forgotten
            if device in self._forgotten:
                del self._forgotten[device]
                self._reminded[device] = version
        late = version - REMINDED_AFTER
        self.not_reminded.update(device for device, since in self._forgotten.items() if since < late)

    def _note(self, pod: Json) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        if pod["status"].get("phase") in FINISHED_PHASES:
            self.finished.add(uid)
        if node and uid not in self.bound:
            devices = tuple(
                sorted(one for resource_claim in self.resource_claims_of(uid) for one in _devices(resource_claim))
            )
            annotations = pod["metadata"].get("annotations", {})
            self.bound[uid] = Bound(pod["metadata"]["name"], node, devices, annotations)

    def _judge(self) -> None:
        resource_claims: dict[Device, set[str]] = defaultdict(set)
        users: dict[Device, set[str]] = defaultdict(set)
        now: dict[str, list[Device]] = defaultdict(list)
        for uid, resource_claim in self._resource_claims.items():
            running = [user for user in _reserved(resource_claim) if self._runs(user)]
            for device in _devices(resource_claim):
                resource_claims[device].add(uid)
                users[device].update(running)
                for user in running:
                    now[user].append(device)
        for device, uids in resource_claims.items():
            if len(users[device]) > 1:
                used = [uid for uid in uids if any(map(self._runs, _reserved(self._resource_claims[uid])))]
                _, forgotten = max(self._since[uid, device] for uid in used)
                found = self.shared_while_forgotten if forgotten else self.shared
                found.add(f"{device}: {sorted(self.bound[user].name for user in users[device])}")
            elif len(uids) > 1:
                self.contested.add((device, frozenset(uids)))
        for user, devices in now.items():
            if tuple(sorted(devices)) != self.bound[user].devices:
                self.moved.append(f"{self.bound[user]} has {sorted(devices)}")

    def _runs(self, uid: str) -> bool:
        return uid in self._pods and uid in self.bound and uid not in self.finished


def _devices(resource_claim: Json) -> list[Device]:
    allocation = resource_claim.get("status", {}).get("allocation") or {}
    return [(one["pool"], one["device"]) for one in allocation.get("devices", {}).get("results", ())]


def _reserved(resource_claim: Json) -> list[str]:
    return [one["uid"] for one in resource_claim.get("status", {}).get("reservedFor", ())]
