"""Complete names of Pods, Nodes, namespaces and contexts for the shell. It never fails, and waits for a moment only."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from kubectl_slurm.api import Api, Away, NotAllowed, NotThere
from kubectl_slurm.kubeconfig import Flags, KubeconfigError, check_files, contexts, target

WITHIN_S = 2.0


def pod_names(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Return Pods of the namespace that the line names."""
    scheduler = context.params.get("scheduler") or "slurm"
    query = {"fieldSelector": f"spec.schedulerName={scheduler}"}
    return _names(context, begun, "/api/v1/namespaces/{namespace}/pods", query)


def node_names(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Return Nodes."""
    return _names(context, begun, "/api/v1/nodes", {})


def namespace_names(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Return the namespaces, if the user may list them."""
    return _names(context, begun, "/api/v1/namespaces", {})


def context_names(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Return contexts of the kubeconfig that the line names."""
    try:
        found = contexts(_flags(context), os.environ, Path.home())
    except (KubeconfigError, RuntimeError):  # RuntimeError: there is no home
        return []
    return [one for one in found if one.startswith(begun)]


def _flags(context: click.Context) -> Flags:
    given: dict[str, Any] = {
        one.name: context.params[one.name] for one in fields(Flags) if context.params.get(one.name)
    }
    return Flags(**given)


def _names(context: click.Context, begun: str, path: str, query: dict[str, str]) -> list[str]:
    try:
        to = target(_flags(context), os.environ, Path.home())
        check_files(to)
        with Api(to, WITHIN_S) as api:
            found = api.items(path.format(namespace=api.namespace), query)
    except (KubeconfigError, NotThere, NotAllowed, Away, RuntimeError):
        return []
    return sorted(name for one in found if (name := one["metadata"]["name"]).startswith(begun))
