"""Find the Deployments that run an extender or a kube-scheduler, and read what they mount."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from extender.config.load import ENVIRONMENT_PREFIX
from extender.config.yaml_text import YamlFault, read_stream
from extender.doctor.checks.scheduler import KIND
from extender.doctor.facts import CalledService, Json, Mount, SchedulerConfigFile
from extender.doctor.gather.kubernetes import items, json_of
from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiError, NotFound


async def gather_deployments(connection: ApiConnection | None) -> Sequence[Json] | None:
    """List the Deployments of the cluster; `None`: no access."""
    if connection is None:
        return None
    try:
        return await items(connection, "/apis/apps/v1/deployments")
    except ApiError:
        return None


async def gather_schedulers(connection: ApiConnection, deployments: Sequence[Json]) -> list[SchedulerConfigFile] | None:
    """Read the configurations that kube-schedulers mount; `None`: no access to ConfigMaps."""
    found = []
    for deployment in deployments:
        if not any(_runs(container, "kube-scheduler") for container in _containers(deployment)):
            continue
        for kind, name, _, _ in _volumes(deployment):
            if kind != "ConfigMap":
                continue
            there, data = await _read(connection, kind, _namespace(deployment), name)
            if there is None:
                return None
            where = f"ConfigMap {_namespace(deployment)}/{name}"
            for key, text in data.items():
                try:
                    found += [SchedulerConfigFile(where, document) for document in scheduler_documents(str(text))]
                except YamlFault as error:
                    found.append(SchedulerConfigFile(where, {}, f"{key}: {error}"))
    return found


async def gather_mounts(connection: ApiConnection, deployments: Sequence[Json], namespace: str) -> list[Mount]:
    """List what the extender's Deployments of a namespace mount."""
    found = []
    for deployment in deployments:
        if _namespace(deployment) != namespace or not any(_serves(one) for one in _containers(deployment)):
            continue
        for kind, name, folder, optional in _volumes(deployment):
            there, data = await _read(connection, kind, namespace, name)
            keys = None if there is None else frozenset(data)
            found.append(Mount(_name(deployment), kind, name, folder, there, keys, optional))
    return found


def scheduler_documents(text: str) -> list[Json]:
    """Return the KubeSchedulerConfigurations in a text, including those in a ConfigMap. Raises YamlFault."""
    if KIND not in text:
        return []
    found: list[Json] = []
    for document in read_stream(text):
        if not isinstance(document, dict):
            continue
        data = document.get("data")
        if document.get("kind") == KIND:
            found.append(document)
        elif document.get("kind") == "ConfigMap" and isinstance(data, dict):
            for inner in data.values():
                found += scheduler_documents(str(inner))
    return found


async def gather_services(connection: ApiConnection, named: Iterable[CalledService]) -> list[CalledService]:
    """Add the ports of each Service; leave out those that the doctor may not read."""
    found = []
    for one in named:
        try:
            answer = await connection.request("GET", f"/api/v1/namespaces/{one.namespace}/services/{one.name}")
        except NotFound:
            found.append(one)
            continue
        except ApiError:
            continue
        ports = (json_of(answer.body).get("spec") or {}).get("ports") or ()
        found.append(replace(one, ports=tuple(int(port["port"]) for port in ports)))
    return found


@dataclass(frozen=True, slots=True)
class InstalledConfig:
    """The configuration of an extender as its Deployment has it: the file, and the environment variables over it."""

    where: str
    text: str
    environ: Mapping[str, str]


async def gather_configuration(connection: ApiConnection, namespace: str) -> InstalledConfig:
    """Read the configuration of the extender in a namespace. Raises LookupError with what is missing, ApiError."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    found = await items(connection, path)
    if found is None:
        raise LookupError(f"the Deployments of namespace {namespace} may not be read")
    for deployment in found:
        for container in _containers(deployment):
            file = _config_file(container) if _serves(container) else ""
            for kind, name, folder, _ in _volumes(deployment):
                key = file.removeprefix(f"{folder.rstrip('/')}/")
                if kind != "ConfigMap" or not file or key == file:
                    continue
                there, data = await _read(connection, kind, namespace, name)
                if there is None:
                    raise LookupError(f"ConfigMap {namespace}/{name} may not be read")
                if key not in data:
                    raise LookupError(f"ConfigMap {namespace}/{name} has no {key}")
                return InstalledConfig(f"ConfigMap {namespace}/{name}, {key}", str(data[key]), _environ(container))
    raise LookupError(f"no Deployment in namespace {namespace} runs `slurm-extender serve --config` with a ConfigMap")


def _config_file(container: Json) -> str:
    arguments = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        if word.startswith("--config="):
            return word.partition("=")[2]
        if word == "--config":
            return after
    return ""


def _environ(container: Json) -> dict[str, str]:
    """Return its variables; a value that differs by Pod is replaced by a constant."""
    return {
        str(one["name"]): str(one.get("value", _OF_THE_POD))
        for one in container.get("env") or ()
        if str(one.get("name", "")).startswith(ENVIRONMENT_PREFIX) and ("value" in one or "valueFrom" in one)
    }


_OF_THE_POD = "the-pod"


async def _read(connection: ApiConnection, kind: str, namespace: str, name: str) -> tuple[bool | None, Json]:
    plural = {"ConfigMap": "configmaps", "Secret": "secrets"}[kind]
    try:
        answer = await connection.request("GET", f"/api/v1/namespaces/{namespace}/{plural}/{name}")
    except NotFound:
        return False, {}
    except ApiError:
        return None, {}
    whole = json_of(answer.body)
    return True, {**(whole.get("binaryData") or {}), **(whole.get("data") or {})}


def _volumes(deployment: Json) -> Iterator[tuple[str, str, str, bool]]:
    """Yield kind, name, folder and whether it is optional, for each Secret and ConfigMap."""
    spec = _pod_spec(deployment)
    folders = {
        mount.get("name"): str(mount.get("mountPath", ""))
        for container in _containers(deployment)
        for mount in container.get("volumeMounts") or ()
    }
    for volume in spec.get("volumes") or ():
        folder = folders.get(volume.get("name"), "")
        for kind, key, name in (("Secret", "secret", "secretName"), ("ConfigMap", "configMap", "name")):
            source = volume.get(key)
            if isinstance(source, dict) and source.get(name):
                yield kind, str(source[name]), folder, bool(source.get("optional"))


def _runs(container: Json, program: str) -> bool:
    arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
    return any(str(word).rpartition("/")[2] == program for word in arguments)


def _serves(container: Json) -> bool:
    arguments = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    return "serve" in arguments and (
        "slurm-extender" in str(container.get("image", "")) or any("slurm-extender" in w for w in arguments)
    )


def _containers(deployment: Json) -> list[Json]:
    return [one for one in _pod_spec(deployment).get("containers") or () if isinstance(one, dict)]


def _pod_spec(deployment: Json) -> Json:
    spec: Json = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    return spec


def _namespace(deployment: Json) -> str:
    return str((deployment.get("metadata") or {}).get("namespace", ""))


def _name(deployment: Json) -> str:
    return str((deployment.get("metadata") or {}).get("name", ""))
