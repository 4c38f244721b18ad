"""Ask the API server for devices. Nothing is asked where the configuration maps none."""

from __future__ import annotations

from extender.config.document import ExtenderConfiguration
from extender.doctor.facts import DeviceFacts, KubeFacts, Right
from extender.doctor.gather.kubernetes import reviewed_rights
from extender.kube.connection import ApiConnection
from extender.kube.devices import RESOURCE_API
from extender.kube.errors import ApiError, NotFound
from extender.kube.listing import list_all
from extender.kube.wire.stream import DEVICE_CLASS, RESOURCE_SLICE

_GROUP = "resource.k8s.io"
_VERBS = {
    "resourceclaims": "get list watch create patch delete",
    "resourceclaims/status": "patch",
    "resourceclaims/binding": "patch",
    "resourceslices": "list watch",
}
RIGHTS = tuple(
    Right(verb, _GROUP, resource, "no ResourceClaim gets the devices that Slurm allocated")
    for resource, verbs in _VERBS.items()
    for verb in verbs.split()
)
"""The rights of the component `devices`."""


async def gather_devices(
    connection: ApiConnection | None, config: ExtenderConfiguration, kube: KubeFacts
) -> DeviceFacts | None:
    """Read the devices of all Nodes; `None`: the configuration maps none, or the API server does not answer."""
    if not config.devices or connection is None or kube.server.error:
        return None
    account = "" if kube.account == kube.server.user else kube.account
    try:
        await connection.request("GET", RESOURCE_API)
    except NotFound:
        return DeviceFacts(served=False)
    except ApiError as error:
        return DeviceFacts(served=True, trouble=str(error))
    may, _why = await reviewed_rights(connection, config, account, RIGHTS)
    try:
        slices = (await list_all(connection, f"{RESOURCE_API}/resourceslices", RESOURCE_SLICE, lambda one: one)).views
        classes = (await list_all(connection, f"{RESOURCE_API}/deviceclasses", DEVICE_CLASS, lambda one: one)).views
    except ApiError as error:
        return DeviceFacts(True, may, trouble=str(error))
    return DeviceFacts(True, may, slices, {one.name: one.resource for one in classes})
