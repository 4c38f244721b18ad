"""Answer `/version` and the reviews of identity and access of the fake API server."""

from __future__ import annotations

from simulator.kube.objects import Json
from simulator.kube.rbac import NAMESPACE, Permission, Rbac, shipped
from simulator.kube.server import ApiRequest, FakeApiServer

VERSION = "v1.36.3"
ADMINISTRATOR = "admin"

_REVIEWS = "/apis/authorization.k8s.io/v1/"
_SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def answer_review(server: FakeApiServer, request: ApiRequest) -> tuple[int, Json] | None:
    """Return status code and body; `None`: the request is about something else. Every client may ask."""
    if (request.method, request.path) == ("GET", "/version"):
        return 200, {"major": "1", "minor": "36", "gitVersion": VERSION}
    if request.method != "POST" or not request.path.startswith((_REVIEWS, _SELF)):
        return None
    if request.path == _SELF:
        return 201, {**request.body, "status": {"userInfo": {"username": _who(server.rbac)}}}
    spec = request.body["spec"]
    rights = server.rbac
    if "user" in spec:
        rights = shipped()
        if rights is None or spec["user"] != _who(rights):
            return 201, {**request.body, "status": {"allowed": False}}
    return 201, {**request.body, "status": {"allowed": rights is None or _allowed(rights, spec["resourceAttributes"])}}


def _allowed(rights: Rbac, attributes: Json) -> bool:
    resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
    permission = Permission(attributes["verb"], attributes.get("group", ""), resource)
    return rights.allows(permission, attributes.get("namespace", ""), attributes.get("name", ""))


def _who(rights: Rbac | None) -> str:
    return ADMINISTRATOR if rights is None else f"system:serviceaccount:{NAMESPACE}:{rights.account}"
