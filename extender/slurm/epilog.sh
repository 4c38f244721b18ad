#!/bin/bash
# Holds a Slurm node for seconds while a Pod outlives its job. For slurm.conf, on every node with slurmd:
#     Epilog=/etc/slurm/slurm-extender-epilog.sh
# The same file may be EpilogSlurmctld on slurmctld's machine: there it holds nothing, and tells the extender of the end
# within milliseconds, for nodes without slurmd as well.
#
# A job that bears no mark of ours is over with it at once, without a process and without the network. For a placeholder
# it asks the hooks until the Pod is gone; before HOLD seconds are over it asks them to drain the node, and if nobody
# answers it drains the node itself, in words that the extender knows as its own and lifts when the Pod is gone. It
# fails, so that Slurm drains the node ("Epilog error"), only where that cannot be done either.

HOOKS= # base URL of the hooks
KEY_FILE=/etc/slurm/slurm-extender.key # the site key (hooks.siteKeyFile); readable by root alone
HOLD=8 # seconds; below SlurmdTimeout, and below the 14 s after which Slurm preempts a further victim

[[ $SLURM_JOB_EXTRA == *'"slurm-extender":1,'* ]] || exit 0

hooks=${HOOKS%/}
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
token=$(<"$KEY_FILE")
export SLURM_EXTENDER_TOKEN=$token # for post_by_bash

# shellcheck source=post.sh
. post.sh # put in here when the script is made

if [[ -z $SLURMD_NODENAME ]]; then # EpilogSlurmctld: a push
  post 'teardown?wait=0' 3 >/dev/null
  exit 0
fi

LAST=3 # seconds of HOLD that are kept for the drain
deadline=$((SECONDS + HOLD))
while left=$((deadline - LAST - SECONDS)) && ((left > 0)); do
  case $(post "teardown?wait=$left" "$((left + 1))") in
    200 | 404) exit 0 ;; # gone, or nobody's
    202) ;;
    *) sleep 1 ;;
  esac
done

# Answered when slurmctld has taken the drain, or there is no such Pod any more.
[[ $(post_to "nodes/$SLURMD_NODENAME/drain" "$LAST") == 20[02] ]] && exit 0

# A node that is drained already keeps its reason, which may be an administrator's.
state=$(scontrol --oneliner show node "$SLURMD_NODENAME" 2>/dev/null)
[[ $state =~ \ State=[^\ ]*DRAIN ]] && exit 0
exec scontrol update "nodename=$SLURMD_NODENAME" state=drain \
  "reason=slurm-extender: job $SLURM_JOB_ID ended, and the extender did not answer its Epilog"
