"""Who has which device, by every version of every ResourceClaim and Pod in the order in which etcd has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]
Device = tuple[str, str]
"""Pool and name."""

OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Bound:
    """A Pod at the instant of its Binding."""

    name: str
    node: str
    devices: tuple[Device, ...]
    annotations: Mapping[str, str]


@dataclass(slots=True)
class DeviceLedger:
    """What a sequence of changes leads to, and what was wrong meanwhile."""

    bound: dict[str, Bound] = field(default_factory=dict)
    """By UID of the Pod."""

    finished: set[str] = field(default_factory=set)
    shared: list[str] = field(default_factory=list)
    """Devices that two Pods on nodes had at one instant."""

    moved: list[str] = field(default_factory=list)
    """Pods whose devices were others after their Binding."""

    contested: set[tuple[Device, frozenset[str]]] = field(default_factory=set)
    """Devices in two ResourceClaims of which one has no Pod on a node (yet)."""

    _claims: dict[str, Json] = field(default_factory=dict)
    _pods: dict[str, Json] = field(default_factory=dict)

    def feed(self, changes: Iterable[Json]) -> None:
        """Take over changes, `type` and `object` each, the oldest first."""
        for change in changes:
            found = change["object"]
            there = self._claims if found["kind"] == "ResourceClaim" else self._pods
            if change["type"] == "DELETED":
                there.pop(found["metadata"]["uid"], None)
            else:
                there[found["metadata"]["uid"]] = found
            if found["kind"] == "Pod":
                self._note(found)
            self._judge()

    def claims_of(self, uid: str) -> list[Json]:
        """The ResourceClaims that are reserved for a Pod."""
        return [claim for claim in self._claims.values() if uid in _reserved(claim)]

    def _note(self, pod: Json) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        if pod["status"].get("phase") in OVER:
            self.finished.add(uid)
        if node and uid not in self.bound:
            devices = tuple(sorted(one for claim in self.claims_of(uid) for one in _devices(claim)))
            annotations = pod["metadata"].get("annotations", {})
            self.bound[uid] = Bound(pod["metadata"]["name"], node, devices, annotations)

    def _judge(self) -> None:
        claims: dict[Device, set[str]] = defaultdict(set)
        users: dict[Device, set[str]] = defaultdict(set)
        now: dict[str, list[Device]] = defaultdict(list)
        for uid, claim in self._claims.items():
            running = [user for user in _reserved(claim) if self._runs(user)]
            for device in _devices(claim):
                claims[device].add(uid)
                users[device].update(running)
                for user in running:
                    now[user].append(device)
        for device, uids in claims.items():
            if len(users[device]) > 1:
                self.shared.append(f"{device}: {sorted(self.bound[user].name for user in users[device])}")
            elif len(uids) > 1:
                self.contested.add((device, frozenset(uids)))
        for user, devices in now.items():
            if tuple(sorted(devices)) != self.bound[user].devices:
                self.moved.append(f"{self.bound[user]} has {sorted(devices)}")

    def _runs(self, uid: str) -> bool:
        return uid in self._pods and uid in self.bound and uid not in self.finished


def _devices(claim: Json) -> list[Device]:
    allocation = claim.get("status", {}).get("allocation") or {}
    return [(one["pool"], one["device"]) for one in allocation.get("devices", {}).get("results", ())]


def _reserved(claim: Json) -> list[str]:
    return [one["uid"] for one in claim.get("status", {}).get("reservedFor", ())]
