"""Change a Node that is registered in Slurm, and read what Slurm has of it."""

from __future__ import annotations

from simulator.kube.objects import Json, a_pod
from simulator.slurm.records import SimNode
from tests.builders.process_site import REGISTERED, Site

NODE = "k9"

EXTERNAL = {"slurm-extender.io/mode": "external"}


def add(site: Site, name: str = NODE, cpu: str = "8", gpus: int = 0, **labels: str) -> None:
    site.kube.add_node(name, cpu=cpu, memory="16Gi", gpus=gpus, labels=REGISTERED | labels, address="10.0.0.9")


def resize(site: Site, **allocatable: str | None) -> None:
    """Change what the kubelet of the Node reports; `None` removes a resource."""

    def edit(node: Json) -> None:
        has = node["status"]["allocatable"] | allocatable
        node["status"]["allocatable"] = {name: size for name, size in has.items() if size is not None}

    site.edit_node(NODE, edit)


def relabel(site: Site, **labels: str | None) -> None:
    def edit(node: Json) -> None:
        has = node["metadata"]["labels"] | labels
        node["metadata"]["labels"] = {name: value for name, value in has.items() if value is not None}

    site.edit_node(NODE, edit)


def daemon(site: Site, name: str, cpu: str, node: str = NODE) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    site.kube.create(
        a_pod(name, "kube-system", scheduler="default-scheduler", cpu=cpu, memory="1Gi", owner=owner, node=node)
    )


def there(site: Site, name: str = NODE) -> SimNode | None:
    return site.slurm.controller.nodes.get(name)


def features(node: SimNode) -> set[str]:
    return {one for one in node.features if not one.startswith("slurm-extender:")}


async def registered(site: Site, name: str = NODE) -> SimNode:
    await site.until(lambda: there(site, name) is not None, f"{name} in Slurm", within=30)
    node = there(site, name)
    assert node is not None
    return node


async def has_cpus(site: Site, cpus: int, within: float = 60) -> None:
    def check() -> bool:
        node = there(site)
        return node is not None and node.cpus == cpus and not node.drained

    await site.until(check, f"{cpus} CPUs in Slurm", within=within)


def count_requests(site: Site, method: str, path: str) -> int:
    return sum(one[0] == method and one[1].startswith(path) for one in site.slurm.restd.requests)


async def shown(site: Site) -> list[dict[str, str]]:
    found: list[dict[str, str]] = (await site.get(8083, "/debug/nodes")).json()["external"]
    return found
