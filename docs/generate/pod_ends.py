"""Print `docs/pod-ends.md` from `extender.domain.fates.by_pod`.

Run from the top of the repository: `python -m docs.generate.pod_ends > docs/pod-ends.md`
"""

from __future__ import annotations

import sys

from extender.domain.fates.by_pod import POD_FATES, UNPROVEN, Stage
from extender.domain.nodes.removals import HEARS_S, OUT_OF_SERVICE, SETTLE_S

_HEAD = """\
# How a Pod's end is taken

<!-- Printed by `python -m docs.generate.pod_ends` from `extender/domain/fates/by_pod.py`. -->

A Pod is gone when its kubelet says so: phase Succeeded or Failed with no container running, which kubelet writes before
the Pod is removed. What Slurm's end does to a Pod stands in `slurm-states.md`.
"""

_UNPROVEN = f"""\
*Held*: the Slurm node is drained first, by us and with a reason that names the Pod; then its job is ended. The drain is
lifted, while the Node is Ready, after two words of its kubelet:

1. one from after the removal. kubelet then hears of the removal within {HEARS_S:g} s, since a dead watch is found and
   begun again in that time, and gives the containers the Pod's own grace, also where the Pod was removed by force;
2. one from after those {HEARS_S:g} s and the grace: it has lived until then, and ended them. {SETTLE_S:g} s later the
   node is free; in these a kubelet that was started again meanwhile ends what it finds.

Its words are the Lease that every kubelet renews in the namespace `kube-node-lease` every 10 s, and its Node's status,
every 5 min. Neither alone proves that anything has stopped: both come from other connections than the watch of Pods.
So a node is held for some 80 s and the grace; for longer where the Node is away, or where Leases may not be read.
The Leases of held Nodes alone are read, one by one, every 5 s and only while that tells something.

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
