"""Read which devices Pods request, by their ResourceClaims and extended resources, and who holds devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from extender.domain.devices.device_map import DeviceMap
from extender.domain.devices.resource_claims import (
    ResourceClaimReading,
    device_class_of,
    extended_requests,
    read_resource_claims,
)
from extender.domain.devices.views import DeviceRequest, ResourceClaimView
from extender.domain.placeholders import Placeholders
from extender.domain.ports import DeviceCache, PodCache
from extender.domain.views import RESOURCE_CLAIMS, PodView, ResourceClaimGres


class PodDevices:
    """Answer questions about the devices of Pods.

    `users_of_resource_claim` returns the Pods that use one, `live_users_of_resource_claim` those that have not ended.
    `node_offers`: a Node reports a resource itself.
    """

    def __init__(
        self,
        device_map: DeviceMap,
        devices: DeviceCache,
        cache: PodCache,
        placeholders: Placeholders,
        *,
        users_of_resource_claim: Callable[[str, str], Sequence[PodView]],
        live_users_of_resource_claim: Callable[[str, str], Iterable[PodView]],
        node_offers: Callable[[str, str], bool],
        scheduler: str,
    ) -> None:
        self.device_map = device_map
        self._devices = devices
        self._cache = cache
        self._placeholders = placeholders
        self._users_of_resource_claim = users_of_resource_claim
        self._live_users_of_resource_claim = live_users_of_resource_claim
        self._node_offers = node_offers
        self._scheduler = scheduler

    def reading(self, pod: PodView) -> ResourceClaimReading:
        """Return what the ResourceClaims of a Pod stand for; nothing where no device is configured."""
        if not self.device_map or not pod.resource_claims:
            return ResourceClaimReading()
        users = self._live_users_of_resource_claim
        return read_resource_claims(pod, self._devices.resource_claim, users, self.device_map)

    def completed(self, pod: PodView) -> PodView | None:
        """Return the Pod with the GRES of its ResourceClaims; `None`: one of them does not exist yet."""
        if not self.device_map or not pod.resource_claims:
            return pod
        found = self.reading(pod)
        if found.missing:
            return None
        return replace(pod, resource_claim_gres=ResourceClaimGres(found.gres, found.faults, found.delegated))

    def waits_for(self, uid: str) -> str:
        """Return which ResourceClaim of a Pod does not exist, and what to do; "": all exist."""
        pod = self._cache.get(uid)
        missing = self.reading(pod).missing if pod is not None else ()
        return missing[0] if missing else ""

    def as_judged(self, pod: PodView) -> PodView | None:
        """Return the Pod as candidate nodes are computed for it; `None`: wait for its ResourceClaims.

        Slurm chooses the devices of translated ResourceClaims, so that kube-scheduler need not see them.
        """
        if not self.device_map or RESOURCE_CLAIMS not in pod.beyond:
            return pod
        found = self.reading(pod)
        if found.missing:
            return None
        if found.delegated:
            return pod
        return replace(pod, beyond=tuple(one for one in pod.beyond if one != RESOURCE_CLAIMS))

    def known(self, uid: str) -> PodView | None:
        """Return a Pod as last seen."""
        return self._cache.get(uid)

    def extended(self, pod: PodView, node: str = "") -> tuple[DeviceRequest, ...]:
        """Return the requests for devices behind the extended resources of a Pod.

        kube-scheduler takes a resource that the Node itself reports from the Node's device plugin.
        """
        if not self.device_map:
            return ()
        found = extended_requests(pod, self._devices.class_of, self.device_map)
        return tuple(one for one in found if not (node and self._node_offers(node, one.name)))

    def translates(self, resource: str) -> bool:
        """Return whether Slurm chooses the devices behind an extended resource."""
        if not self.device_map:
            return False
        return self.device_map.line_of(device_class_of(resource, self._devices.class_of)) is not None

    def undone_by_errors(self, pod: PodView) -> bool:
        """Return whether an error of `/bind` makes kube-scheduler undo something that the extender cannot restore.

        kube-scheduler then deletes the ResourceClaim of extended resources, and takes back what it allocated. The
        extender reserves translated ResourceClaims itself.
        """
        judged = self.as_judged(pod)
        beyond = pod.beyond if judged is None else judged.beyond
        return any("claim" in part or part.startswith("volume") for part in beyond) or bool(self.extended(pod))

    def users(self, resource_claim: ResourceClaimView) -> tuple[PodView, ...]:
        """Return the Pods that use a ResourceClaim, its owner included."""
        found = {one.uid: one for one in self._users_of_resource_claim(resource_claim.namespace, resource_claim.name)}
        if resource_claim.owner and (owner := self._cache.get(resource_claim.owner)) is not None:
            found[owner.uid] = owner
        return tuple(found[uid] for uid in sorted(found))

    def pod_of(self, resource_claim: ResourceClaimView) -> str:
        """Return the Pod that uses a ResourceClaim, as `namespace/name`; "": unknown."""
        users = self.users(resource_claim)
        named = [one for one in users if one.uid in resource_claim.reserved] or list(users)
        return named[0].full_name if named else ""

    def is_leaving(self, resource_claim: ResourceClaimView) -> bool:
        """Return whether every Pod of a ResourceClaim has ended: kube-controller-manager removes its allocation."""
        pods = [self._cache.get(uid) for uid in resource_claim.reserved]
        return bool(pods) and all(pod is None or pod.finished for pod in pods)

    def is_provisional(self, resource_claim: ResourceClaimView) -> bool:
        """Return whether a ResourceClaim is compared with Slurm's indexes before any of its Pods is bound."""
        users = self.users(resource_claim)
        if not users or not set(resource_claim.reserved) <= {one.uid for one in users}:
            return False
        return all(self._is_unbound(resource_claim, one) and self._is_translated(resource_claim, one) for one in users)

    def _is_unbound(self, resource_claim: ResourceClaimView, pod: PodView) -> bool:
        """Return whether a Pod is not bound with this allocation.

        While `/bind` replaces what kube-scheduler chose for extended resources, the Pod counts as binding already.
        """
        if pod.scheduler_name != self._scheduler or pod.node_name or pod.deleted_at is not None:
            return False
        p = self._placeholders.by_pod(pod.uid)
        member = None if p is None else p.member(pod.uid)
        if p is None or member is None:
            return True
        return not member.node and not (member.binding and resource_claim.job_id == p.job_id)

    def _is_translated(self, resource_claim: ResourceClaimView, pod: PodView) -> bool:
        if resource_claim.extended:
            return all(self.device_map.line_of(one.device_class) is not None for one in resource_claim.requests)
        return any(one.uid == resource_claim.uid for one in self.reading(pod).translated)
