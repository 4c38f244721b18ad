"""The command line: ``python -m lab``."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import click

from lab import build_kubernetes, registry
from lab.build_parts import build_parts, lab_parts
from lab.cache import cache_folder
from lab.clock import elapsed
from lab.cluster import Lab, LabOptions, SlurmNode
from lab.errors import LabError
from lab.first_pod import first_pod
from lab.machine import require_root
from lab.scheduler import DEFAULT_CONFIG
from lab.slurm import ENVIRONMENT

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@click.group()
def cli() -> None:
    """Build and run stock Slurm and stock Kubernetes on this machine."""


@cli.command()
@click.argument("names", nargs=-1, metavar="[PART]...")
def build(names: tuple[str, ...]) -> None:
    """Build the parts that are not in the cache yet, and report the seconds of each.

    Without PART: everything but the parts that only kubelet suites need. `python -m lab build node` builds those.
    """
    parts = lab_parts()
    unknown = [name for name in names if name not in parts]
    if unknown:
        raise LabError(f"no part {', '.join(unknown)}; there are {', '.join(parts)}")
    click.echo(f"cache: {cache_folder()}")
    build_parts(
        {name: part for name, part in parts.items() if (name in names if names else not part.extra)}, click.echo
    )


def _lab_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--slurm", "release", default="24.11", show_default=True, help="Slurm release."),
        click.option(
            "--kubernetes",
            "minor",
            default=build_kubernetes.newest_minor(),
            show_default=True,
            help="Kubernetes minor.",
        ),
        click.option("--nodes", default=3, show_default=True, help="Nodes with a slurmd."),
        click.option("--external", default=0, show_default=True, help="External nodes (Slurm 26.05)."),
        click.option("--scheduler-config", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=None),
    ):
        function = option(function)
    return function


def _options(release: str, minor: str, nodes: int, external: int, scheduler_config: Path | None) -> LabOptions:
    return LabOptions(
        slurm_release=release,
        kubernetes_version=minor,
        nodes=tuple(SlurmNode(f"node-{index + 1}", gpus=8, gpu_type="h100") for index in range(nodes)),
        external_nodes=tuple(SlurmNode(f"external-{index + 1}", gpus=8, gpu_type="h100") for index in range(external)),
        scheduler_config=scheduler_config.read_text() if scheduler_config else DEFAULT_CONFIG,
    )


def environment(lab: Lab) -> dict[str, str]:
    """Return the environment variables by which a command finds a running lab."""
    return {
        "KUBECONFIG": str(lab.kube.kubeconfig),
        "LAB_KUBECTL": str(lab.kube.kubectl_path),
        "LAB_KUBERNETES_URL": lab.kube.url,
        "LAB_KUBERNETES_CA": str(lab.kube.ca_file),
        "LAB_SLURM_URL": lab.slurm.rest_url,
        "LAB_SLURM_PARSER": lab.slurm.release.parser,
        "LAB_SLURM_JWT_KEY": str(lab.slurm.jwt_key_path),
        "LAB_SLURM_TOKEN": lab.slurm.token("root"),
    }


@cli.command()
@_lab_options
def up(release: str, minor: str, nodes: int, external: int, scheduler_config: Path | None) -> None:
    """Run a lab until Ctrl-C (or `python -m lab down`)."""
    began = elapsed()
    with Lab(_options(release, minor, nodes, external, scheduler_config)) as lab:
        click.echo(f"Slurm {lab.slurm.version} and Kubernetes {lab.kube.version}: up in {elapsed() - began:.1f} s\n")
        for name, value in environment(lab).items():
            click.echo(f"export {name}={shlex.quote(value)}")
        ping = '$LAB_SLURM_URL/slurm/$LAB_SLURM_PARSER/ping"'
        click.echo(
            "\nTo try, with these set:\n"
            "  $LAB_KUBECTL get nodes\n"
            f'  curl -H "X-SLURM-USER-TOKEN: $LAB_SLURM_TOKEN" "{ping}\n'
            "  python -m lab slurm sinfo\n\n"
            f"Logs: {lab.slurm.home / 'log'} and {lab.kube.home / 'log'}\nCtrl-C ends everything."
        )
        sys.stdout.flush()
        signal.pause()


@cli.command("first-pod")
@click.option("--slurm", "release", default="24.11", show_default=True, help="Slurm release.")
@click.option("--stay", is_flag=True, help="Leave everything up afterwards, to try more, until Ctrl-C.")
@click.option("--kubelet", is_flag=True, help="Run its container, by a real kubelet, beside a slurmd.")
def show_first_pod(*, release: str, stay: bool, kubelet: bool) -> None:
    """Take one Pod through Slurm, show each step, and clean up."""
    first_pod(release, _print_line, stay=stay, kubelet=kubelet)


def _print_line(line: str) -> None:
    # At once, also into a pipe: what happens is to be seen while it happens.
    click.echo(line)
    sys.stdout.flush()


@cli.command(context_settings={"ignore_unknown_options": True})
@_lab_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    *, release: str, minor: str, nodes: int, external: int, scheduler_config: Path | None, command: tuple[str, ...]
) -> None:
    """Start a lab, run COMMAND with its addresses in the environment, end the lab, and exit as COMMAND did."""
    with Lab(_options(release, minor, nodes, external, scheduler_config)) as lab:
        status = subprocess.run(command, env={**os.environ, **environment(lab)}, check=False).returncode
    sys.exit(status if status >= 0 else 128 - status)


@cli.command()
def status() -> None:
    """List the labs that run on this machine."""
    labs = registry.running()
    for lab in labs:
        click.echo(f"{lab.what}: run by pid {lab.runner.pid}, process 1 is pid {lab.init.pid}, files in {lab.home}")
    if not labs:
        click.echo("nothing runs")


@cli.command()
@click.argument("runner", type=int, required=False)
@click.option("--all", "every", is_flag=True, help="End every lab of this machine, those of other users too.")
def down(*, runner: int | None, every: bool) -> None:
    """End the lab that runs, or the one that the process RUNNER runs (see `status`)."""
    labs = [lab for lab in registry.running() if runner in {None, lab.runner.pid}]
    runners = sorted({lab.runner.pid for lab in labs})
    if runner is not None and not labs:
        raise LabError(f"pid {runner} runs no lab: see `python -m lab status`")
    if len(runners) > 1 and not every:
        raise LabError(f"several labs run: name one of {', '.join(map(str, runners))} (see `status`), or --all")
    for lab in labs:
        click.echo(f"ending {lab.what} (pid {lab.runner.pid})")
        registry.end(lab)


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def slurm(command: tuple[str, ...]) -> None:
    """Run COMMAND (squeue, scontrol, sbatch ...) inside the Slurm cluster that runs."""
    require_root()
    labs = [lab for lab in registry.running() if lab.what.startswith("slurm ")]
    if not labs:
        raise LabError("no Slurm cluster runs: start one with `python -m lab up`")
    if len(labs) > 1:
        click.echo(f"{len(labs)} Slurm clusters run; this is {labs[-1].what} in {labs[-1].home}", err=True)
    namespaces = f"/proc/{labs[-1].init.pid}/ns"
    kinds = {"mount": "mnt", "uts": "uts", "ipc": "ipc", "net": "net"}
    enter = ["nsenter", *(f"--{kind}={namespaces}/{name}" for kind, name in kinds.items()), "--"]
    settings = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    os.execvp("nsenter", [*enter, "chroot", labs[-1].chroot, "env", *settings, *command])


def _unwind(number: int, _frame: FrameType | None) -> None:
    # As an exception, so that every context manager on the way out ends what it started; a second one must not cut in.
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> None:
    """Run the command line; errors of the lab are shown in one line."""
    for number in SIGNALS:
        signal.signal(number, _unwind)
    try:
        cli()
    except LabError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
