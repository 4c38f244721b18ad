"""ResourceClaims in a simulated cluster, and checks of their devices."""

from __future__ import annotations

from extender.domain.wellknown import CPUS, DEVICE_REMINDER, GATE, JOB_ID
from simulator.kube.dynamic_resources import CPU_DEVICE, CPU_DRIVER, DynamicResources, devices_of
from simulator.kube.objects import Json
from simulator.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from simulator.kube.storage import ObjectKey
from tests.builders.process_site import NAMES, Site
from tests.builders.rights import shipped_rights

DRIVER = "gpu.example.com"
RESOURCE = "example.com/gpu"
OWN = "own"
"""A ResourceClaim that belongs to no Pod."""

DEVICE_MAP = f"""
devices: [{{gres: gpu, driver: {DRIVER}, deviceClasses: [{DRIVER}], match: {{attribute: index}}}}]
jobs: {{gres: [{{resource: {RESOURCE}, gres: gpu}}]}}
"""
"""In the configuration, Slurm chooses the devices of the driver."""


CPU_MAP = "cpus: {}\n"
"""In the configuration, Slurm chooses the CPUs of containers with a ResourceClaim for them."""

CPU_ORDER = (5, 1, 7, 3, 4, 0, 6, 2)
"""Not the order of the CPUs, so that a cpuset shows that it was used."""


def with_devices(site: Site) -> None:
    """Give each node four GPUs. Slurm takes the first that are free, and kube-scheduler the last."""
    site.kube.rbac = shipped_rights("devices")
    site.scheduler.dynamic_resources = dra = DynamicResources(site.kube)
    dra.add_class(DRIVER, RESOURCE)
    for name in NAMES:
        site.slurm.controller.nodes[name].gres = {"gpu": 4}
        dra.publish(name, DRIVER, 4)
        site.kube.change(
            ObjectKey(RESOURCE_SLICES, "", f"{name}-{DRIVER}-1"), lambda one: one["spec"]["devices"].reverse()
        )


def with_cpus(site: Site) -> None:
    """Give each Node the driver's device for all CPUs, and their order in Slurm."""
    site.kube.rbac = shipped_rights("devices")
    site.scheduler.dynamic_resources = dra = DynamicResources(site.kube)
    dra.add_class(CPU_DRIVER)
    for name in NAMES:
        site.slurm.controller.nodes[name].threads_per_core = 1
        dra.publish_cpus(name, len(CPU_ORDER))
        site.edit_node(name, _with_order)


def _with_order(node: Json) -> None:
    node["status"]["capacity"] = {"cpu": str(len(CPU_ORDER))}
    node["metadata"].setdefault("annotations", {})[CPUS] = ",".join(map(str, CPU_ORDER))


def resources_of(site: Site) -> DynamicResources:
    """Return the simulated control plane of ResourceClaims."""
    assert site.scheduler.dynamic_resources is not None
    return site.scheduler.dynamic_resources


async def come_with_resource_claims(site: Site) -> None:
    """Create the ResourceClaim before kube-scheduler may try the Pod."""
    resource_claims = [{"name": "g", "resourceClaimTemplateName": f"{DRIVER}x2"}]
    site.kube.add_pod("web", gates=(GATE,), grace_s=2, spec_more={"resourceClaims": resource_claims})


async def bound_with_devices(site: Site) -> None:
    """Bind a Pod to a node, with the devices of its ResourceClaim."""
    await come_with_resource_claims(site)
    await site.bound("web")


async def share_for_a_moment(site: Site) -> None:
    """Allocate a device of the Pod for another scheduler, and free it: kube-schedulers forget its holder."""
    [resource_claim] = [one for one in site.kube.storage.of(RESOURCE_CLAIMS) if devices_of(one)]
    resources_of(site).share_for_a_moment(devices_of(resource_claim)[0])


async def bound_and_reminded(site: Site) -> None:
    """Bind the same Pod with a reminder of one of its devices."""
    await bound_with_devices(site)
    await share_for_a_moment(site)
    await site.until(lambda: any(map(is_reminder, site.kube.storage.of(RESOURCE_CLAIMS))), "a reminder")


async def come_for_an_extended_resource(site: Site) -> None:
    """Create a Pod whose ResourceClaim kube-scheduler makes; its devices are replaced at the Binding."""
    site.kube.add_pod("web", gates=(GATE,), more={RESOURCE: "2"}, grace_s=2)


async def come_for_cpus(site: Site) -> None:
    """Create a Guaranteed Pod with a ResourceClaim for all of its CPUs."""
    resource_claims = [{"name": "c", "resourceClaimTemplateName": f"{CPU_DRIVER}x2"}]
    site.kube.add_pod("web", cpu="2", gates=(GATE,), grace_s=2, spec_more={"resourceClaims": resource_claims})


async def granted_with_devices(site: Site) -> None:
    """Create a Pod with a device that kube-scheduler gives no node."""
    await _wait_unbound(site, DRIVER)


async def pinned_and_waiting(site: Site) -> None:
    """Create a Pod with a CPU that kube-scheduler gives no node."""
    await _wait_unbound(site, CPU_DRIVER)


async def _wait_unbound(site: Site, driver: str) -> None:
    site.scheduler.judge = lambda pod, _node: "never" if pod["metadata"]["name"] == "web" else ""
    dra = resources_of(site)
    dra.add_resource_claim(OWN, driver)
    resource_claims = [{"name": "g", "resourceClaimName": OWN}]
    site.kube.add_pod("web", gates=(GATE,), grace_s=1, spec_more={"resourceClaims": resource_claims})
    await site.until(lambda: bool(dra.devices_of(OWN)), "its allocation")


def resource_claims_in_order(site: Site) -> bool:
    """Return whether Pods hold the devices and CPUs of their jobs, each held once, and all others are free."""
    if site.scheduler.dynamic_resources is None:
        return True
    resource_claims = [one for one in site.kube.storage.of(RESOURCE_CLAIMS) if not is_reminder(one)]
    held = [device for resource_claim in resource_claims for device in devices_of(resource_claim)]
    if site.scheduler.dynamic_resources.doubly or len(held) != len(set(held)):
        return False
    reminders = [one for one in site.kube.storage.of(RESOURCE_CLAIMS) if is_reminder(one)]
    if any(not set(devices_of(one)) <= set(held) for one in reminders):
        return False
    return all(_is_in_order(site, resource_claim) for resource_claim in resource_claims)


def is_reminder(resource_claim: Json) -> bool:
    """Return whether the extender reminds kube-schedulers of a device by this ResourceClaim."""
    return DEVICE_REMINDER in resource_claim["metadata"].get("labels", {})


def _is_in_order(site: Site, resource_claim: Json) -> bool:
    meta, reserved = resource_claim["metadata"], resource_claim.get("status", {}).get("reservedFor", ())
    if not reserved:
        return not (devices_of(resource_claim) or meta.get("finalizers") or JOB_ID in meta.get("annotations", {}))
    name = reserved[0]["name"]
    node, jobs = site.node_of(name), site.jobs_of(name)
    if len(reserved) != 1 or len(jobs) != 1 or not node:
        return False
    given = [(DRIVER, node, f"gpu-{at}") for at in jobs[0].devices.get(node, {}).get("gpu", ())]
    given += [(CPU_DRIVER, node, f"{CPU_DEVICE}/{CPU_ORDER[core]}") for core in jobs[0].cores.get(node, ())]
    return sorted(devices_of(resource_claim)) == sorted(given)
