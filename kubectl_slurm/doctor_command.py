"""`doctor`: all that `slurm-extender doctor` does, with kubectl's flags and forms of output."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout

import click

from kubectl_slurm.completion import context_names
from kubectl_slurm.output import Form, Printer

TEXT = "text"
"""The name of readable output in `slurm-extender doctor`."""


@click.command(
    short_help="Check Slurm, Kubernetes and the settings",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig.")
@click.option("--context", "chosen", default="", shell_complete=context_names, help="A context of it.")
@click.option("-n", "--namespace", "of_pods", default="")
@click.option("--extender-namespace", default="", help="Namespace of the extender.")
@click.option("-o", "--output", default=TEXT, type=click.Choice([TEXT, *map(str, Form)]), help="How to print.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def doctor(  # noqa: PLR0917 - click names them
    kubeconfig: str, chosen: str, of_pods: str, extender_namespace: str, output: str, arguments: tuple[str, ...]
) -> None:
    """Check the installation: all that `slurm-extender doctor` does, with its flags (docs/reference/doctor.md)."""
    if of_pods:
        raise click.UsageError("-n is the namespace of Pods; name that of the extender by --extender-namespace")
    words = list(arguments)
    for key, value in (("kubernetes.kubeconfig", kubeconfig), ("kubernetes.context", chosen)):
        if value:
            words += ["--set", f"{key}={value}"]
    if extender_namespace:
        words += ["--namespace", extender_namespace]
    if output in {Form.YAML, Form.NAME}:
        _print(words, Form(output))
    _run([*words, "--output", "json" if output == Form.JSON else TEXT])


def _print(words: list[str], form: Form) -> None:
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            _run([*words, "--output", "json"])
    except SystemExit as ended:
        if output.getvalue().startswith("{"):
            found = json.loads(output.getvalue())
            rows = [{"name": one.get("check", "")} for one in found.get("findings") or ()]
            Printer(form).show([found] if form is Form.YAML else rows, [], "check", one=form is Form.YAML)
        else:  # not even begun: its help, or wrong flags
            click.echo(output.getvalue(), nl=False)
        sys.exit(ended.code)


def _run(words: list[str]) -> None:
    """End the process with the exit code of the doctor."""
    try:
        from extender.cli.doctor import doctor as examine  # noqa: PLC0415 - no other command needs the configuration
    except ModuleNotFoundError as error:
        text = f"this program was built without the package {error.name}; use slurm-extender doctor"
        raise click.ClickException(text) from error
    examine.main(words, prog_name="kubectl slurm doctor")
