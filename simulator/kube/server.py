"""The fake API server's answers: every request but watches, as plain function calls on its storage."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from simulator.kube import pods
from simulator.kube.faults import KubeFaults
from simulator.kube.field_managers import APPLY, Manager, apply_status, note_status
from simulator.kube.objects import Json, a_node, a_pod, timestamp
from simulator.kube.patch import apply_patch
from simulator.kube.rbac import Permission, Rbac
from simulator.kube.resources import BUILT_IN, EVENTS, NAMESPACES, NODES, PODS, Resource, Target, find_target
from simulator.kube.status_errors import StatusError, already_exists, bad_request, conflict, expired, invalid, not_found
from simulator.kube.storage import ObjectKey, Storage
from simulator.kube.watch_caches import WatchCaches

SOMEBODY = "kubectl"
"""Who changes objects and does not say who that is."""

LONGEST_NOTE = 1024
"""Bytes of an Event's note."""

MANAGED = frozenset({"PodGroup"})
"""Kinds whose fields of the status have managers."""

RECENT = 10_000
"""Requests that are remembered."""

KEPT_PAGES = 64
"""Pages of lists that can still be requested."""

NAMESPACES_AT_START = ("default", "kube-system", "kube-node-lease", "kube-public", "slurm-extender")


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. `body` is parsed JSON."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    token: str = ""

    @property
    def watch(self) -> bool:
        """Return whether the request is a watch rather than a list."""
        return self.query.get("watch") in {"1", "true"}


def permission_for(request: ApiRequest, target: Target) -> Permission:
    """Return the permission that RBAC would look for."""
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    verb = verbs.get(request.method) or ("get" if target.name else "watch" if request.watch else "list")
    resource = target.resource.plural + (f"/{target.subresource}" if target.subresource else "")
    return Permission(verb, target.resource.group, resource)


class FakeApiServer:
    """The state of one cluster, and the answers to requests about it.

    `wall` gives seconds since the epoch. `tokens` are the bearer tokens that are accepted; `None`: all. `rbac` are the
    rights of the client, `None`: all; `allowed` takes some away for a while. `mutate` stands for admission: it may
    change an object that is about to be created. `used` counts the permissions that requests needed, `requests` are the
    latest ones.
    """

    def __init__(
        self,
        wall: Callable[[], float],
        *,
        resources: tuple[Resource, ...] = BUILT_IN,
        mutate: Callable[[Json], None] | None = None,
    ) -> None:
        self.wall = wall
        self.storage = Storage()
        self.faults = KubeFaults()
        self.caches = WatchCaches(self.storage)
        self.resources = resources
        self.mutate = mutate
        self.tokens: set[str] | None = None
        self.allowed: Callable[[Permission], bool] | None = None
        self.rbac: Rbac | None = None
        self.used: Counter[Permission] = Counter()
        self.requests: deque[ApiRequest] = deque(maxlen=RECENT)
        self.in_client_request = False
        """A request of a client is being carried out, rather than something that the simulation does."""

        self.check_update: Callable[[Json, Json], None] = lambda _old, _new: None
        """Refuse a change of a status that validation does not allow, by StatusError: the object before and after."""

        self.before_read: list[Callable[[ObjectKey], None]] = []
        """Called for each object that is about to be read: what changes all the time is brought up to date then."""

        self._manager = SOMEBODY
        self._pages: dict[str, tuple[int, list[Json]]] = {}
        for name in NAMESPACES_AT_START:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    # What a simulation does to the cluster.

    def create(self, obj: Json) -> Json:
        """Create an object of any kind served. Raises StatusError."""
        meta = obj["metadata"]
        resource = next(
            each for each in self.resources if (each.api_version, each.kind) == (obj["apiVersion"], obj["kind"])
        )
        return self._create(Target(resource, meta.get("namespace", "") if resource.namespaced else ""), obj)

    def add_pod(self, name: str, namespace: str = "default", **fields: Any) -> Json:
        """Create a Pod; `fields` as for `objects.a_pod`."""
        return self.create(a_pod(name, namespace, **fields))

    def add_node(self, name: str, **fields: Any) -> Json:
        """Create a Node; `fields` as for `objects.a_node`."""
        return self.create(a_node(name, **fields))

    def pod(self, name: str, namespace: str = "default") -> Json | None:
        """Return a Pod as it is."""
        return self.storage.get(pods.pod_key(namespace, name))

    def node(self, name: str) -> Json | None:
        """Return a Node as it is."""
        return self.storage.get(ObjectKey(NODES, "", name))

    def delete_pod(self, name: str, namespace: str = "default", grace_s: int | None = None) -> None:
        """Delete a Pod as a user does. Raises StatusError."""
        options = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        pods.delete_pod(self.storage, pods.pod_key(namespace, name), options, self.wall())

    def change(self, key: ObjectKey, edit: Callable[[Json], None]) -> Json:
        """Change an object as its controller or kubelet does, status included. Raises StatusError when it is gone."""
        obj = deepcopy(self._existing(key))
        edit(obj)
        return self._put(key, obj)

    # What clients do.

    def answer(self, request: ApiRequest, target: Target) -> tuple[int, Json]:
        """Carry out a request that is no watch: status code and body. Raises StatusError."""
        key = ObjectKey(target.resource, target.namespace, target.name)
        match request.method, target.name, target.subresource:
            case "GET", "", "":
                return 200, self._list(request, target)
            case "GET", _, "" | "status":
                for bring_up_to_date in self.before_read:
                    bring_up_to_date(key)
                return 200, self._existing(key)
            case "POST", "", "":
                return 201, self._create(target, _object(request.body))
            case "POST", _, "binding":
                pods.bind(self.storage, key, _object(request.body), self.wall())
                return 201, _success()
            case "POST", _, "eviction":
                pods.evict(self.storage, key, _object(request.body), self.wall())
                return 201, _success()
            case "PATCH", name, subresource if name:
                return 200, self._patch(key, subresource, request)
            case "PUT", name, subresource if name:
                return 200, self._replace(key, subresource, _object(request.body))
            case "DELETE", name, "" if name:
                return 200, self._delete(key, request.body or {})
        raise StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def discovery(self, path: str) -> Json | None:
        """Return the kinds of one group and version, at `/api/v1` or `/apis/GROUP/VERSION`."""
        served = [resource for resource in self.resources if resource.root == path]
        if not served:
            return None
        entries = [
            {
                "name": each.plural,
                "singularName": "",
                "namespaced": each.namespaced,
                "kind": each.kind,
                "verbs": ["get"],
            }
            for each in served
        ]
        entries += [
            {"name": f"{each.plural}/{sub}", "singularName": "", "namespaced": each.namespaced, "kind": each.kind}
            for each in served
            for sub in sorted(each.subresources)
        ]
        return {"kind": "APIResourceList", "groupVersion": served[0].api_version, "resources": entries}

    def target(self, path: str) -> Target | None:
        """Return the object or collection that a path names."""
        return find_target(path, self.resources)

    def _existing(self, key: ObjectKey) -> Json:
        obj = self.storage.get(key)
        if obj is None:
            raise not_found(_qualified(key.resource), key.name)
        return obj

    def _list(self, request: ApiRequest, target: Target) -> Json:
        field, _, named = request.query.get("fieldSelector", "").partition("=")
        if (field and field != "metadata.name") or request.query.get("labelSelector"):
            raise bad_request("the fake API server selects by metadata.name alone")
        limit = int(request.query.get("limit") or 0)
        token = request.query.get("continue", "")
        if token:
            version, items = self._pages.get(token, (-1, []))
            if version < self.storage.forgotten:
                raise expired("The provided continue parameter is too old to display a consistent list result.")
        elif (still := self.caches.snapshot()) is not None:
            version, items = still.version, self.caches.of(still, target.resource, target.namespace)
        else:
            version, items = self.storage.version, list(self.storage.of(target.resource, target.namespace))
        if named:
            items = [one for one in items if one["metadata"]["name"] == named]
        meta: Json = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            items, rest = items[:limit], items[limit:]
            meta["continue"] = f"{version}.{target.resource.plural}.{target.namespace}.{len(rest)}"
            meta["remainingItemCount"] = len(rest)
            self._pages[meta["continue"]] = (version, rest)
            if len(self._pages) > KEPT_PAGES:
                del self._pages[next(iter(self._pages))]
        kind = f"{target.resource.kind}List"
        return {"kind": kind, "apiVersion": target.resource.api_version, "metadata": meta, "items": items}

    def _create(self, target: Target, obj: Json) -> Json:
        resource, now = target.resource, self.wall()
        new = deepcopy(obj)
        meta = new.setdefault("metadata", {})
        name = meta.get("name", "")
        if not name:
            raise invalid(
                resource.kind, name, "metadata.name", name, "Required value: name or generateName is required"
            )
        if not resource.namespaced:
            meta.pop("namespace", None)
        else:
            meta["namespace"] = target.namespace or meta.get("namespace") or "default"
            if self.storage.get(ObjectKey(NAMESPACES, "", meta["namespace"])) is None:
                raise not_found("namespaces", meta["namespace"])
        key = ObjectKey(resource, meta.get("namespace", ""), name)
        if self.storage.get(key) is not None:
            raise already_exists(_qualified(resource), name)
        new |= {"apiVersion": resource.api_version, "kind": resource.kind}
        meta |= {"uid": self.storage.new_uid(), "creationTimestamp": timestamp(now), "generation": 1}
        if self.mutate is not None:
            self.mutate(new)
        if resource == PODS:
            pods.admit_pod(new, now)
        if resource == EVENTS and len(new.get("note", "").encode()) > LONGEST_NOTE:
            raise invalid(resource.kind, name, "note", "...", f"can have at most {LONGEST_NOTE} characters")
        return self.storage.put(key, new)

    def _patch(self, key: ObjectKey, subresource: str, request: ApiRequest) -> Json:
        old = self._existing(key)
        self._manager = request.query.get("fieldManager", SOMEBODY)
        try:
            if request.content_type == APPLY:
                return self._apply(key, subresource, old, request)
            return self._update(key, subresource, old, apply_patch(old, request.body, request.content_type))
        finally:
            self._manager = SOMEBODY

    def _apply(self, key: ObjectKey, subresource: str, old: Json, request: ApiRequest) -> Json:
        if subresource != "status":
            raise StatusError(415, "UnsupportedMediaType", "the fake API server applies nothing but a status")
        force = request.query.get("force") == "true"
        manager = Manager(request.query.get("fieldManager", ""), "Apply", key.resource.api_version, self.wall())
        return self._put(key, apply_status(old, request.body, manager, force=force))

    def _replace(self, key: ObjectKey, subresource: str, obj: Json) -> Json:
        return self._update(key, subresource, self._existing(key), deepcopy(obj))

    def _update(self, key: ObjectKey, subresource: str, old: Json, new: Json) -> Json:
        was, meta = old["metadata"], new.get("metadata") or {}
        qualified = _qualified(key.resource)
        version = meta.get("resourceVersion")
        if version and version != was["resourceVersion"]:
            raise conflict(qualified, key.name, "the object has been modified; please apply your changes to it")
        meta.setdefault("uid", was["uid"])
        if meta["uid"] != was["uid"]:
            raise invalid(key.resource.kind, key.name, "metadata.uid", meta["uid"], "field is immutable")
        kept = deepcopy(old)
        if subresource == "status":
            kept["status"] = new.get("status") or {}
            if key.resource.kind in MANAGED:
                manager = Manager(self._manager, "Update", key.resource.api_version, self.wall())
                kept = note_status(old, kept, manager)
            if key.resource == NODES:  # `registry/core/node/strategy.go` keeps the spec alone
                kept["metadata"] |= {name: meta[name] for name in ("labels", "annotations") if name in meta}
            self.check_update(old, kept)
            return self._put(key, kept)
        new["metadata"] = meta | {"creationTimestamp": was["creationTimestamp"], "generation": was["generation"]}
        if "status" in key.resource.subresources:
            new["status"] = kept.get("status", {})
        if key.resource == PODS:
            pods.check_update(old, new)
            pods.ungated(old, new)
        return self._put(key, new)

    def _put(self, key: ObjectKey, obj: Json) -> Json:
        """Store an object, or forget it if only a finalizer kept it."""
        meta = obj["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds"):
            return self.storage.remove(key)
        if key.resource == NODES:
            self._note_who_cordoned(self.storage.get(key), obj)
        return self.storage.put(key, obj)

    def _note_who_cordoned(self, old: Json | None, new: Json) -> None:
        """Record as the only managed field which manager changed `spec.unschedulable` last."""
        cordoned = new["spec"].get("unschedulable")
        if old is None or old["spec"].get("unschedulable") == cordoned:
            return
        fields: Json = {"f:spec": {"f:unschedulable": {}} if cordoned else {}}
        new["metadata"]["managedFields"] = [
            {"manager": self._manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
        ]

    def _delete(self, key: ObjectKey, options: Json) -> Json:
        if key.resource == PODS:
            return pods.delete_pod(self.storage, key, options, self.wall())
        obj = self._existing(key)
        pods.check_uid(obj, options)
        if obj["metadata"].get("finalizers"):
            ending = deepcopy(obj)
            ending["metadata"].setdefault("deletionTimestamp", timestamp(self.wall()))
            return self.storage.put(key, ending)
        self.storage.remove(key)
        return _success()


def _object(body: Any) -> Json:
    if not isinstance(body, dict):
        raise bad_request("the body of the request is no object")
    return body


def _success() -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def _qualified(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
