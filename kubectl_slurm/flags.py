"""The flags that every command has: kubectl's own, and where the extender is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from typing import Any, TypeVar

import click

from kubectl_slurm.completion import context_names, namespace_names
from kubectl_slurm.kubeconfig import Flags
from kubectl_slurm.output import Form

FOR_EVER = 3600.0
_UNITS = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|)", re.ASCII)

F = TypeVar("F", bound=Callable[..., Any])


OF_PODS = frozenset({"namespace", "everywhere"})
"""Parameters that choose Pods; commands about Nodes take them and leave them out of their help."""

CONNECTION = frozenset(field.name for field in fields(Flags)) - {"namespace"} | {
    "request_timeout",
    "scheduler",
    "extender_namespace",
    "lease",
    "debug_port",
    "debug_url",
}
"""Parameters of the connections to the API server and the extender; the command `options` lists them."""

_AS_GIVEN = ("everywhere", "scheduler", "extender_namespace", "lease", "debug_url", "debug_port")


@dataclass(frozen=True, slots=True)
class Common:
    """The common parameters of a call."""

    access: Flags
    everywhere: bool
    form: Form
    timeout_s: float
    scheduler: str
    extender_namespace: str
    lease: str
    debug_url: str
    debug_port: int
    headings: bool
    """Over a table."""


def common(command: F) -> F:
    """Give a command these flags, and their values as its first argument."""

    @wraps(command)
    def called(**given: Any) -> Any:
        access = Flags(**{field.name: given.pop(field.name) for field in fields(Flags)})
        more = {name: given.pop(name) for name in _AS_GIVEN}
        timeout = seconds(given.pop("request_timeout"))
        form, headings = Form(given.pop("output")), not given.pop("no_headers")
        return command(Common(access, form=form, timeout_s=timeout, headings=headings, **more), **given)

    found: Any = called
    for option in reversed(_OPTIONS):
        found = option(found)
    return found  # type: ignore[no-any-return]


def selector(command: F) -> F:
    """Add `-l`, for commands about many objects."""
    return click.option("-l", "--selector", default="", help="Label selector, such as app=web,tier!=db.")(command)


class DryRun(StrEnum):
    """Values of `--dry-run`."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


def dry_run_option(command: F) -> F:
    """Add `--dry-run`, for commands that change something."""
    return click.option(
        "--dry-run",
        is_flag=False,
        flag_value=str(DryRun.CLIENT),
        default=str(DryRun.NONE),
        type=click.Choice([str(one) for one in DryRun]),
        help="client: send nothing; server: let the API server validate the request without storing it.",
    )(command)


def values_of_flags() -> dict[str, bool]:
    """Return every spelling of a flag that all commands have, and whether a value follows it."""
    found: dict[str, bool] = {}
    for option in _all_options():
        found |= dict.fromkeys(option.opts, not option.is_flag)
    return found


def connection_options() -> list[click.Option]:
    """Return the flags that `options` lists, in their order."""
    return [option for option in _all_options() if option.name in CONNECTION]


def _all_options() -> list[click.Option]:
    def probe() -> None:
        """Carry all the options."""

    for option in reversed(_OPTIONS):
        option(probe)
    found: list[click.Option] = getattr(probe, "__click_params__", [])
    return found[::-1]


def seconds(text: str) -> float:
    """Parse `--request-timeout`: 10, 10s, 2m. Raises click.BadParameter."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} must read as 10s, 2m or 10", param_hint="--request-timeout")
    return float(found[1]) * _UNITS[found[2]] or FOR_EVER


_OPTIONS = (
    click.option(
        "-n",
        "--namespace",
        default="",
        shell_complete=namespace_names,
        help="Namespace of the Pods; default that of the context.",
    ),
    click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods of every namespace."),
    click.option(
        "-o",
        "--output",
        type=click.Choice([str(form) for form in Form]),
        default=str(Form.TABLE),
        show_default=True,
        help="Output format.",
    ),
    click.option("--no-headers", is_flag=True, help="Print a table without its head."),
    click.option("--kubeconfig", default="", metavar="FILE", help="Path of the kubeconfig; default as kubectl."),
    click.option("--context", default="", shell_complete=context_names, help="Context of the kubeconfig."),
    click.option("--cluster", default="", help="Cluster of the kubeconfig."),
    click.option("--user", default="", help="User of the kubeconfig."),
    click.option("-s", "--server", default="", metavar="URL", help="Address of the API server."),
    click.option("--token", default="", help="Bearer token for the API server."),
    click.option("--as", "as_user", default="", metavar="USER", help="User to impersonate."),
    click.option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="Group to impersonate."),
    click.option("--as-uid", default="", metavar="UID", help="UID to impersonate."),
    click.option(
        "--certificate-authority",
        default="",
        metavar="FILE",
        help="Path of the certificate authority of the API server.",
    ),
    click.option("--client-certificate", default="", metavar="FILE", help="Path of the client certificate."),
    click.option("--client-key", default="", metavar="FILE", help="Path of the key of the client certificate."),
    click.option("--tls-server-name", default="", help="Server name to verify in the certificate."),
    click.option(
        "--insecure-skip-tls-verify", "insecure", is_flag=True, help="Do not verify the certificate of the API server."
    ),
    click.option(
        "--request-timeout", default="10s", show_default=True, help="Time limit of one request; 0 waits for an hour."
    ),
    click.option(
        "--scheduler-name", "scheduler", default="slurm", show_default=True, help="schedulerName of the Pods."
    ),
    click.option(
        "--extender-namespace",
        default="slurm-extender",
        show_default=True,
        help="Namespace of the extender and its Lease.",
    ),
    click.option(
        "--lease", default="slurm-extender", show_default=True, help="Name of the Lease (leaderElection.leaseName)."
    ),
    click.option(
        "--debug-port",
        type=click.IntRange(1, 65535),
        default=8083,
        show_default=True,
        help="Port of /debug in the extender's Pod (observability.debugBind).",
    ),
    click.option(
        "--debug-url",
        default="",
        metavar="URL",
        help="Address of the leader's /debug, instead of the way through the API server.",
    ),
)
