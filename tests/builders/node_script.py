"""Run the scripts of slurm.conf in a real bash, as Slurm does: its variables, and its commands as the test says."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

from click.testing import CliRunner

from extender.cli import main


async def run_node_script(
    folder: Path,
    command: str,
    options: dict[str, object],
    commands: dict[str, str],
    context: str,
    *,
    nodes: str,
    extra: str,
) -> int:
    """Print the script by `command` and run it for job 17; its exit code. `context`: SLURM_SCRIPT_CONTEXT.

    `commands` are Slurm's, as texts of programs.
    """
    printed = CliRunner().invoke(main, ["generate", command, *(str(word) for pair in options.items() for word in pair)])
    assert printed.exit_code == 0, printed.output
    script, programs = folder / f"{command}.sh", folder / "bin"
    script.write_text(printed.output)
    programs.mkdir(exist_ok=True)
    for name, text in commands.items():
        (programs / name).write_text(text)
        (programs / name).chmod(stat.S_IRWXU)
    environment = {
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_EXTRA": extra,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_SCRIPT_CONTEXT": context,
        "PATH": f"{programs}:/usr/bin:/bin",
    }
    if context.endswith("_slurmd"):
        environment["SLURMD_NODENAME"] = nodes
    process = await asyncio.create_subprocess_exec("/bin/bash", str(script), env=environment)
    return await process.wait()
