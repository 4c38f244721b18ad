"""The scripts of slurm.conf in a real bash, as Slurm runs them: Slurm's variables, and a scontrol of the test's."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

from click.testing import CliRunner

from extender.cli import main


async def run_node_script(
    folder: Path, command: str, options: dict[str, object], scontrol: str, context: str, *, nodes: str, extra: str
) -> int:
    """Print the script by `command` and run it for job 17; its exit code. `context`: SLURM_SCRIPT_CONTEXT."""
    printed = CliRunner().invoke(main, [command, *(str(word) for pair in options.items() for word in pair)])
    assert printed.exit_code == 0, printed.output
    script, said = folder / f"{command}.sh", folder / "bin" / "scontrol"
    script.write_text(printed.output)
    said.parent.mkdir(exist_ok=True)
    said.write_text(scontrol)
    said.chmod(stat.S_IRWXU)
    environment = {
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_EXTRA": extra,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_SCRIPT_CONTEXT": context,
        "PATH": f"{said.parent}:/usr/bin:/bin",
    }
    if context.endswith("_slurmd"):
        environment["SLURMD_NODENAME"] = nodes
    process = await asyncio.create_subprocess_exec("/bin/bash", str(script), env=environment)
    return await process.wait()
