"""Provide what every command needs: the API server, the extender's `/debug`, and a printer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from extender.domain.printable import printable
from kubectl_slurm.api import HOLDS_ALL, Api, Away, NotAllowed, NotThere
from kubectl_slurm.debug import Debug, Unreached
from kubectl_slurm.flags import Common
from kubectl_slurm.kubeconfig import KubeconfigError, check_files, is_name, target
from kubectl_slurm.output import Column, Form, Printer

Json = dict[str, Any]

USAGE = 2


@dataclass(frozen=True, slots=True)
class CommandSources:
    """The sources of a command."""

    api: Api
    debug: Debug
    given: Common

    @property
    def namespace(self) -> str:
        """Return the namespace of the listed Pods; "": all."""
        return "" if self.given.everywhere else self.api.namespace

    def renewed(self) -> CommandSources:
        """Return the same sources, of which the extender is asked again although it was not reached before."""
        return CommandSources(self.api, Debug(self.api, self.given), self.given)

    def pod(self, name: str) -> Json:
        """Return a Pod of Slurm's schedulers by NAME or NAMESPACE/NAME. Raises click.ClickException."""
        where, bare = self.place(name)
        try:
            found = self.api.get(f"/api/v1/namespaces/{where}/pods/{bare}")
        except NotThere:
            raise click.ClickException(f"there is no Pod {bare} in namespace {where}") from None
        self.judge(found)
        return found

    def place(self, name: str) -> tuple[str, str]:
        """Return namespace and name of a Pod, as given by the user."""
        namespace, _, bare = _without(name, "pods/", "pod/", "po/").rpartition("/")
        if not is_name(bare) or (namespace and not is_name(namespace)):
            raise click.UsageError(f"{name!r} names no Pod; it must read NAME, pod/NAME or NAMESPACE/NAME")
        return namespace or self.api.namespace, bare

    def judge(self, pod: Json) -> None:
        """Raise click.ClickException where another scheduler places the Pod."""
        scheduler, wanted = (pod.get("spec") or {}).get("schedulerName", ""), self.given.scheduler
        if scheduler != wanted:
            meta = pod["metadata"]
            raise click.ClickException(
                f"Pod {meta.get('namespace', '')}/{meta['name']} is not placed by Slurm: its schedulerName is "
                f"{scheduler!r}, not {wanted!r}; name that of the extender with --scheduler-name"
            )

    def node(self, name: str) -> Json:
        """Return a Node by NAME or node/NAME. Raises click.ClickException."""
        bare = node_name(name)
        try:
            return self.api.get(f"/api/v1/nodes/{bare}")
        except NotThere:
            raise click.ClickException(f"there is no Node {bare}") from None

    def show(self, rows: list[Json], columns: list[Column], kind: str, nothing: str = "", *, one: bool = False) -> None:
        """Print what was found; where that is nothing, a table is a sentence on standard error instead."""
        if not rows and nothing and self.given.form in {Form.TABLE, Form.WIDE}:
            click.echo(nothing, err=True)
        else:
            Printer(self.given.form, self.given.headings, self.api.now).show(rows, columns, kind, one=one)


@contextmanager
def command_sources(given: Common) -> Iterator[CommandSources]:
    """Open the API server for a command, and turn its errors into messages for the user."""
    try:
        for flag, name in (("--extender-namespace", given.extender_namespace), ("--lease", given.lease)):
            if not is_name(name):
                raise click.BadParameter(f"{name!r} can be no name", param_hint=flag)
        to = target(given.access, os.environ, _home())
        check_files(to)
        with Api(to, given.timeout_s) as api:
            yield CommandSources(api, Debug(api, given), given)
    except KubeconfigError as error:
        click.echo(printable(f"Error: {error}"), err=True)
        sys.exit(USAGE)
    except NotAllowed as error:
        raise click.ClickException(f"{error} ({HOLDS_ALL})") from error
    except (NotThere, Away) as error:
        raise click.ClickException(str(error)) from error


def node_name(name: str) -> str:
    """Return the name of a Node without its kind. Raises click.UsageError."""
    bare = _without(name, "nodes/", "node/", "no/")
    if not is_name(bare):
        raise click.UsageError(f"{name!r} names no Node; it must read NAME or node/NAME")
    return bare


def remark(error: Unreached, so: str) -> None:
    """Say what is missing from what is printed, in one line."""
    click.echo(printable(f"{' '.join(str(error).split())}; {so}"), err=True)


def _without(name: str, *kinds: str) -> str:
    """Return the name without the kind that `-o name` writes before it."""
    return next((name.removeprefix(kind) for kind in kinds if name.startswith(kind)), name)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without an entry in passwd, and without HOME: an ordinary one in a container
        return Path("/")
