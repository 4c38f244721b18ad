"""List the kinds of objects that the fake API server serves, and parse their paths."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object. `group` is "" for the core API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        """Return the version as objects carry it: `apps/v1`, `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """Return how paths of its group and version begin."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


STATUS = frozenset({"status"})

PODS = Resource("", "v1", "pods", "Pod", subresources=frozenset({"status", "binding", "eviction"}))
NODES = Resource("", "v1", "nodes", "Node", namespaced=False, subresources=STATUS)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False, subresources=STATUS)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", subresources=STATUS)
REPLICASETS = Resource("apps", "v1", "replicasets", "ReplicaSet", subresources=STATUS)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", subresources=STATUS)
STATEFULSETS = Resource("apps", "v1", "statefulsets", "StatefulSet", subresources=STATUS)
JOBS = Resource("batch", "v1", "jobs", "Job", subresources=STATUS)
CRONJOBS = Resource("batch", "v1", "cronjobs", "CronJob", subresources=STATUS)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
"""Not served as it is: dynamic resource allocation is for sites that have it."""

RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", subresources=STATUS)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)

KUBERNETES_POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", subresources=STATUS)
COSCHEDULING_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", subresources=STATUS)
VOLCANO_POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", subresources=STATUS)
"""Not served as they are either: PodGroups are for sites that have them."""

BUILT_IN = (
    PODS,
    NODES,
    NAMESPACES,
    EVENTS,
    LEASES,
    BUDGETS,
    REPLICASETS,
    DEPLOYMENTS,
    STATEFULSETS,
    JOBS,
    CRONJOBS,
)


@dataclass(frozen=True, slots=True)
class Target:
    """The object or collection that a path names.

    `name` is "" for a collection, `namespace` "" for all of them or for a cluster-wide kind.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def find_target(path: str, resources: tuple[Resource, ...]) -> Target | None:
    """Return the object or collection at `path`; `None` where the path names none."""
    for resource in resources:
        if not path.startswith(resource.root + "/"):
            continue
        parts = path[len(resource.root) + 1 :].split("/")
        namespace = ""
        if resource.namespaced and len(parts) > 2 and parts[0] == "namespaces":
            namespace, parts = parts[1], parts[2:]
        if parts[0] != resource.plural or len(parts) > 3:
            continue
        name, subresource = [*parts[1:], "", ""][:2]
        if subresource and subresource not in resource.subresources:
            continue
        if name and resource.namespaced and not namespace:
            continue
        return Target(resource, namespace, name, subresource)
    return None
