"""The flags that every command has: kubectl's own, and where the extender is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from extender.kubectl.kubeconfig import Flags, KubeconfigError, contexts
from extender.kubectl.output import Form

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Common:
    """What was given."""

    access: Flags
    everywhere: bool
    form: Form
    timeout_s: float
    scheduler: str
    extender_namespace: str
    lease: str
    debug_url: str


def common(command: F) -> F:
    """Give a command these flags, and their values as its first argument."""

    @wraps(command)
    def called(**given: Any) -> Any:
        access = Flags(**{field.name: given.pop(field.name) for field in fields(Flags)})
        more = {
            name: given.pop(name) for name in ("everywhere", "scheduler", "extender_namespace", "lease", "debug_url")
        }
        timeout = _seconds(given.pop("request_timeout"))
        return command(Common(access, form=Form(given.pop("output")), timeout_s=timeout, **more), **given)

    found: Any = called
    for option in reversed(_OPTIONS):
        found = option(found)
    return found  # type: ignore[no-any-return]


def _contexts(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    import os  # noqa: PLC0415 - asked by the shell alone

    try:
        return [one for one in contexts(Flags(), os.environ, Path.home()) if one.startswith(begun)]
    except KubeconfigError:
        return []


def _seconds(text: str) -> float:
    number = text.removesuffix("s")
    try:
        found = float(number)
    except ValueError:
        raise click.BadParameter(f"{text!r} must read as 10s or 10", param_hint="--request-timeout") from None
    return found if found > 0 else 3600.0


_OPTIONS = (
    click.option("-n", "--namespace", default="", help="Namespace of the Pod; without it, the context's."),
    click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods of every namespace."),
    click.option(
        "-o",
        "--output",
        type=click.Choice([str(form) for form in Form]),
        default=str(Form.TABLE),
        show_default=True,
        help="How to print.",
    ),
    click.option(
        "--kubeconfig", default="", metavar="FILE", help="The kubeconfig; without it, as kubectl looks for it."
    ),
    click.option("--context", default="", shell_complete=_contexts, help="A context of it."),
    click.option("--cluster", default="", help="A cluster of it."),
    click.option("--user", default="", help="A user of it."),
    click.option("-s", "--server", default="", metavar="URL", help="The API server."),
    click.option("--token", default="", help="A bearer token for it."),
    click.option("--as", "as_user", default="", metavar="USER", help="Act as this user."),
    click.option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="Act as in this group."),
    click.option("--as-uid", default="", metavar="UID", help="Act as of this UID."),
    click.option(
        "--certificate-authority", default="", metavar="FILE", help="Whom the API server's certificate is from."
    ),
    click.option("--client-certificate", default="", metavar="FILE", help="Our own certificate."),
    click.option("--client-key", default="", metavar="FILE", help="Its key."),
    click.option("--tls-server-name", default="", help="The name in the API server's certificate."),
    click.option("--insecure-skip-tls-verify", "insecure", is_flag=True, help="Believe any certificate."),
    click.option("--request-timeout", default="10s", show_default=True, help="For one answer; 0 waits for an hour."),
    click.option(
        "--scheduler-name", "scheduler", default="slurm", show_default=True, help="schedulerName of the Pods."
    ),
    click.option(
        "--extender-namespace",
        default="slurm-extender",
        show_default=True,
        help="Where the extender and its Lease are.",
    ),
    click.option("--lease", default="slurm-extender", show_default=True, help="leaderElection.leaseName."),
    click.option(
        "--debug-url", default="", metavar="URL", help="Where the leader's /debug is reached, if not by proxy."
    ),
)
