"""What the shell is offered for Pods and Nodes. It never fails, and waits for no more than a moment."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from extender.kubectl.api import Api, Away, NotAllowed, NotThere
from extender.kubectl.kubeconfig import Flags, KubeconfigError, target

WITHIN_S = 2.0


def pod_names(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Pods of the namespace that the line names."""
    scheduler = context.params.get("scheduler") or "slurm"
    query = {"fieldSelector": f"spec.schedulerName={scheduler}"}
    return _names(context, begun, "/api/v1/namespaces/{namespace}/pods", query)


def node_names(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Nodes."""
    return _names(context, begun, "/api/v1/nodes", {})


def _names(context: click.Context, begun: str, path: str, query: dict[str, str]) -> list[str]:
    given: dict[str, Any] = {
        one.name: context.params[one.name] for one in fields(Flags) if context.params.get(one.name)
    }
    try:
        with Api(target(Flags(**given), os.environ, Path.home()), WITHIN_S) as api:
            found = api.items(path.format(namespace=api.namespace), query)
    except (KubeconfigError, NotThere, NotAllowed, Away):
        return []
    return sorted(name for one in found if (name := one["metadata"]["name"]).startswith(begun))
