"""Print `docs/pod-ends.md` from `extender.domain.pod_fates`.

Run from the top of the repository: `python -m docs.generate.pod_ends > docs/pod-ends.md`
"""

from __future__ import annotations

import sys

from extender.domain.pod_fates import POD_FATES, UNPROVEN, Stage
from extender.domain.removals import OUT_OF_SERVICE, SETTLE_S

_HEAD = """\
# How a Pod's end is taken

<!-- Printed by `python -m docs.generate.pod_ends` from `extender/domain/pod_fates.py`. -->

A Pod is gone when its kubelet says so: phase Succeeded or Failed with no container running, which kubelet writes before
the Pod is removed. What Slurm's end does to a Pod stands in `slurm-states.md`.
"""

_UNPROVEN = f"""\
*Held*: the Slurm node is drained first, by us and with a reason that names the Pod; then its job is ended. The drain is
lifted when the Node is Ready, its kubelet has written so after the removal, and the Pod's grace period and
{SETTLE_S:g} s have passed since: kubelet gives the containers of a Pod that was removed by force the Pod's own grace.
A person can say earlier that nothing runs there: with the taint `{OUT_OF_SERVICE}` on the Node,
or with the site key by `POST /hooks/nodes/NODE/empty`. A Pod that was on no node leaves nothing behind.
"""


def render() -> str:
    """The whole page, with a newline at its end."""
    lines = [_HEAD, f"| | {' | '.join(Stage)} |", "|---" * (len(Stage) + 1) + "|"]
    lines += [f"| {what} | {' | '.join(fates[stage].text for stage in Stage)} |" for what, fates in POD_FATES.items()]
    lines += ["", "## Ends without kubelet's word", "", _UNPROVEN, "| the Pod is | its node |", "|---|---|"]
    lines += [f"| {what} | {text} |" for what, text in UNPROVEN.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
