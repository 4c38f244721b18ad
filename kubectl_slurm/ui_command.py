"""`ui`: forward the console of the extender that leads to this machine."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable

import click

from extender.domain.printable import printable
from kubectl_slurm.api import Away
from kubectl_slurm.command_sources import CommandSources, command_sources
from kubectl_slurm.flags import Common, common
from kubectl_slurm.group import OptionsCommand
from kubectl_slurm.leader import leader_of

PATH = "/debug/console"
FOLLOW_S = 5.0
"""Seconds between two looks at which replica leads."""

open_browser: Callable[[str], bool] = webbrowser.open


@click.command(cls=OptionsCommand, short_help="Show the queue and nodes in a browser")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default="any free one", help="Port on this machine."
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@common
def ui(given: Common, port: int, opened: bool) -> None:
    """Forward the console, a read-only page of the extender that leads, to this machine until Ctrl-C.

    The page shows the queue with reasons, the nodes with the Pods and jobs on them, and the timeline of a Pod. Every
    user who can connect to the port of this machine sees it.

    \b
    Examples:
      kubectl slurm ui
      kubectl slurm ui --port 8083 --open
    """
    with command_sources(given) as sources:
        if given.debug_url:
            _print_address(f"{given.debug_url.rstrip('/')}{PATH}", opened)
            return
        with sources.api.listener(
            given.extender_namespace, _leader(sources), given.debug_port, port, report
        ) as listener:
            _print_address(f"http://localhost:{listener.port}{PATH}", opened)
            while True:
                sources.api.wait(FOLLOW_S)
                try:
                    leader = leader_of(sources.api, given)
                except Away as error:
                    report(f"{error}; the page stays with the Pod that it had")
                else:
                    if leader:
                        listener.follow(leader)


def report(text: str) -> None:
    """Print why a connection failed, in one line."""
    click.echo(printable(" ".join(text.split())), err=True)


def _print_address(address: str, opened: bool) -> None:
    click.echo(f"{address}")
    if opened and not open_browser(address):
        click.echo("no browser can be opened here; open the address by hand", err=True)


def _leader(sources: CommandSources) -> str:
    leader = leader_of(sources.api, sources.given)
    if not leader:
        raise click.ClickException(
            f"which Pod of the extender leads cannot be read in namespace {sources.given.extender_namespace} "
            "(--extender-namespace, --lease)"
        )
    return leader
