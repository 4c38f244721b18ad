"""Implement what is particular to Pods: defaults, allowed changes, binding, deletion.

After Kubernetes `pkg/registry/core/pod/storage/{storage,eviction}.go` and `pkg/registry/core/pod/strategy.go`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from simulator.kube.objects import Json, parse_timestamp, set_condition, timestamp
from simulator.kube.resources import BUDGETS, PODS
from simulator.kube.status_errors import StatusError, bad_request, conflict, invalid, not_found, throttled
from simulator.kube.storage import ObjectKey, Storage

DEFAULT_GRACE_S = 30
FINISHED_PHASES = {"Succeeded", "Failed"}


def admit_pod(pod: Json, now: float) -> None:
    """Fill in what the API server fills in at creation."""
    spec = pod.setdefault("spec", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", DEFAULT_GRACE_S)
    for container in [*spec.get("containers", ()), *(spec.get("initContainers") or ())]:
        resources = container.setdefault("resources", {})
        if resources.get("limits"):
            resources["requests"] = resources["limits"] | resources.get("requests", {})
    pod["status"] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        set_condition(
            pod["status"], gated | {"message": "Scheduling is blocked due to non-empty scheduling gates"}, now
        )


def check_update(old: Json, new: Json) -> None:
    """Refuse what may not change: of the spec only gates may go, and metadata is free. Raises StatusError."""
    name = old["metadata"]["name"]
    before, after = deepcopy(old["spec"]), deepcopy(new["spec"])
    gates_before = [gate["name"] for gate in before.pop("schedulingGates", None) or ()]
    gates_after = [gate["name"] for gate in after.pop("schedulingGates", None) or ()]
    if set(gates_after) - set(gates_before):
        raise invalid("Pod", name, "spec.schedulingGates", gates_after, "only deletion is allowed")
    if before != after:
        raise invalid("Pod", name, "spec", "...", "pod updates may not change fields other than a few")
    if not gates_after:
        new["spec"].pop("schedulingGates", None)


def ungated(old: Json, new: Json) -> None:
    """Drop the condition of a gated Pod once its last gate is gone; kube-scheduler writes the next one."""
    if old["spec"].get("schedulingGates") and not new["spec"].get("schedulingGates"):
        conditions = new["status"].get("conditions") or []
        new["status"]["conditions"] = [each for each in conditions if each.get("reason") != "SchedulingGated"]


def bind(storage: Storage, key: ObjectKey, binding: Json, now: float) -> None:
    """Serve `POST pods/NAME/binding`. Raises StatusError."""
    name, meta = key.name, binding.get("metadata") or {}
    node = (binding.get("target") or {}).get("name", "")
    if meta.get("name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    if not node:
        raise StatusError(500, "", "target.name: Required value")  # The real one says it so.
    pod = storage.get(key)
    if pod is None:
        raise not_found("pods", name)
    if meta.get("uid") and meta["uid"] != pod["metadata"]["uid"]:
        raise conflict("pods/binding", name, _uid_text(meta["uid"], pod))
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise conflict("pods/binding", name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
    bound = deepcopy(pod)
    bound["spec"]["nodeName"] = node
    if meta.get("annotations"):
        bound["metadata"]["annotations"] = (bound["metadata"].get("annotations") or {}) | meta["annotations"]
    bound["status"].pop("nominatedNodeName", None)
    set_condition(bound["status"], {"type": "PodScheduled", "status": "True"}, now)
    storage.put(key, bound)


def evict(storage: Storage, key: ObjectKey, eviction: Json, now: float) -> None:
    """Serve `POST pods/NAME/eviction`. The budget is asked before the UID is compared. Raises StatusError."""
    if (eviction.get("metadata") or {}).get("name") != key.name:
        raise bad_request("name in URL does not match name in Eviction object")
    pod = storage.get(key)
    if pod is None:
        raise not_found("pods", key.name)
    options = eviction.get("deleteOptions") or {}
    if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp"):
        _spend_budget(storage, pod)
    check_uid(pod, options)
    target = deepcopy(pod)
    set_condition(
        target["status"],
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        },
        now,
    )
    storage.put(key, target)
    delete_pod(storage, key, options, now)


def delete_pod(storage: Storage, key: ObjectKey, options: Json, now: float) -> Json:
    """Begin or finish the end of a Pod, or shorten its grace. Returns its state. Raises StatusError.

    The end is written down before the Pod is removed, even when both happen at once (`BeforeDelete` in
    `apiserver/pkg/registry/rest/delete.go`).
    """
    pod = storage.get(key)
    if pod is None:
        raise not_found("pods", key.name)
    check_uid(pod, options)
    ending = deepcopy(pod)
    meta, requested = ending["metadata"], options.get("gracePeriodSeconds")
    if "deletionTimestamp" not in meta:
        grace = pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_S) if requested is None else requested
        if not pod["spec"].get("nodeName") or pod["status"]["phase"] in FINISHED_PHASES:
            grace = 0  # No kubelet has anything to stop.
        until = now + grace
    elif meta["deletionGracePeriodSeconds"] == 0:
        grace, until = 0, parse_timestamp(meta["deletionTimestamp"])
    elif requested is None or requested >= meta["deletionGracePeriodSeconds"]:
        return pod  # A grace can only be shortened.
    else:
        until = parse_timestamp(meta["deletionTimestamp"]) - meta["deletionGracePeriodSeconds"] + requested
        grace = requested if until >= now or requested == 0 else 1
        until = max(until, now)
    meta |= {"deletionTimestamp": timestamp(until), "deletionGracePeriodSeconds": grace}
    ending = storage.put(key, ending)
    return storage.remove(key) if grace == 0 and not meta.get("finalizers") else ending


def check_uid(obj: Json, options: Json) -> None:
    """Hold `preconditions.uid` of delete options against the object. Raises StatusError."""
    wanted = (options.get("preconditions") or {}).get("uid")
    if wanted and wanted != obj["metadata"]["uid"]:
        raise conflict(obj["kind"], obj["metadata"]["name"], _uid_text(wanted, obj))


def _uid_text(wanted: str, obj: Json) -> str:
    return f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {obj['metadata']['uid']}"


def _spend_budget(storage: Storage, pod: Json) -> None:
    labels: Any = pod["metadata"].get("labels") or {}
    for budget in storage.of(BUDGETS, pod["metadata"]["namespace"]):
        wanted = ((budget["spec"].get("selector") or {}).get("matchLabels")) or {}
        if not wanted or any(labels.get(key) != value for key, value in wanted.items()):
            continue
        allowed = (budget.get("status") or {}).get("disruptionsAllowed")
        if not allowed:
            # Only for a budget that its controller has not counted yet does the real one say when to ask again.
            wait_s = 10 if allowed is None else 0
            raise throttled("Cannot evict pod as it would violate the pod's disruption budget.", wait_s)
        spent = deepcopy(budget)
        spent["status"]["disruptionsAllowed"] = allowed - 1
        meta = budget["metadata"]
        storage.put(ObjectKey(BUDGETS, meta["namespace"], meta["name"]), spent)


def pod_key(namespace: str, name: str) -> ObjectKey:
    """Return the key of a Pod."""
    return ObjectKey(PODS, namespace, name)
