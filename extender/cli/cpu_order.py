"""`slurm-extender generate cpu-order`."""

from __future__ import annotations

import os
from typing import TextIO

import click


@click.command(short_help="Print the CPUs of a machine in Slurm's order")
@click.option("--node", metavar="NAME", help="Write the order into the annotation of this Node instead of printing it.")
@click.option(
    "--lscpu",
    type=click.File(),
    metavar="FILE",
    help="Output of lscpu -p=CPU,CORE,SOCKET,NODE of the machine; - reads it from stdin. Default: this machine.",
)
def cpu_order(node: str | None, lscpu: TextIO | None) -> None:
    """Print the Linux CPUs of a machine in the order in which slurmd numbers cores (docs/devices.md).

    The extender needs it where Slurm chooses the CPUs of containers (`cpus` in the configuration).

    \b
    Examples:
      slurm-extender generate cpu-order
      ssh n1 lscpu -p=CPU,CORE,SOCKET,NODE | slurm-extender generate cpu-order --lscpu - --node n1
    """
    # Only here: no other command needs these.
    from extender.domain.devices.cpu_order import LONGEST_ORDER, order_of_lscpu, order_text  # noqa: PLC0415
    from extender.kube.cpu_annotation import CpuAnnotationError, annotate  # noqa: PLC0415
    from extender.slurm.linux_cpus import cpu_table  # noqa: PLC0415

    try:
        table = lscpu.read(16 * LONGEST_ORDER) if lscpu is not None else cpu_table()
        order = order_text(order_of_lscpu(table))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"The CPUs cannot be read: {error}") from error
    if node is None:
        click.echo(order)
        return
    try:
        annotate(node, order, os.environ)
    except CpuAnnotationError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Node {node}: {order}")
