"""Secrets as kubelet mounts them: a file for each key, every change at once."""

import base64
from pathlib import Path

from lab.errors import LabError
from lab.kube import Kubernetes


def mount(kube: Kubernetes, namespace: str, name: str, folder: Path) -> Path:
    """Put the keys of a Secret into a folder, or bring it up to date; raises LabError if there is no such Secret.

    The folder is a link that is changed in one step, as that of kubelet is (``pkg/volume/util/atomic_writer.go``).
    """
    status, found = kube.api("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    if status != 200:
        raise LabError(f"Secret {namespace}/{name} cannot be read ({status}): {found.get('message')}")
    fresh = folder.with_name(f"{folder.name}.{found['metadata']['resourceVersion']}")
    fresh.mkdir(mode=0o755, parents=True, exist_ok=True)
    for key, value in found["data"].items():
        (fresh / key).write_bytes(base64.b64decode(value))
    link = folder.with_name(f"{folder.name}.new")
    link.unlink(missing_ok=True)
    link.symlink_to(fresh)
    link.replace(folder)
    return folder
