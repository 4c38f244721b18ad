"""Tenants: users with the rights of an author of Pods in one namespace, and none elsewhere."""

from typing import Any

from lab.clock import wait_until
from lab.errors import LabError
from lab.kube import Kubernetes

ROLE = "author-of-pods"
RULES: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "watch", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
]
_RBAC = "rbac.authorization.k8s.io"


def admit_tenant(kube: Kubernetes, user: str, namespace: str) -> str:
    """Make a namespace in which ``user`` may write Pods, and return the path of a kubeconfig of that user.

    The API server must know the user since its start (``Kubernetes(users=...)``). With a static token it has the same
    name and groups (``system:authenticated``) as with a client certificate, so the same FlowSchema: global-default.
    """
    _create(kube, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    rights = f"/apis/{_RBAC}/v1/namespaces/{namespace}"
    _create(kube, f"{rights}/roles", {"metadata": {"name": ROLE}, "rules": RULES})
    binding = {
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": ROLE},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }
    _create(kube, f"{rights}/rolebindings", binding)
    # The authorizer learns of a binding by a watch, a moment after its creation.
    pods = f"/api/v1/namespaces/{namespace}/pods"
    wait_until(lambda: kube.api("GET", pods, user=user)[0] == 200, f"{user} may list Pods", timeout_s=30)
    return str(kube.kubeconfig_for(user))


def _create(kube: Kubernetes, path: str, body: dict[str, Any]) -> None:
    status, answer = kube.api("POST", path, body)
    if status != 201:
        raise LabError(f"POST {path} was refused ({status}): {answer.get('message')}")
