#!/bin/bash
# Taint the Kubernetes Node of a Slurm node while a native job is there (nodes.nativeJobTaint). Use this one file in
# slurm.conf, on nodes with slurmd:
#     Prolog=/etc/slurm/slurm-extender-lock.sh
#     Epilog=/etc/slurm/slurm-extender-lock.sh
# or, for every kind of node, on slurmctld's machine:
#     PrologSlurmctld=/etc/slurm/slurm-extender-lock.sh
#     EpilogSlurmctld=/etc/slurm/slurm-extender-lock.sh
#
# A job waits until the API server has the taint, for HOLD seconds at most, and then starts in any case: the extender
# finds it in its poll and taints the Node later. It never fails, since Slurm would drain the node or requeue the job.

HOOKS= # base URL of the hooks
KEY_FILE=/etc/slurm/slurm-extender.key # the site key (hooks.siteKeyFile); readable by root and SlurmUser alone
HOLD=5 # seconds for which a job waits for its lock at most
CONF= # slurm.conf, if Slurm's commands do not find it: slurmctld does not pass SLURM_CONF to its scripts
MARK='{"slurm-extender":1,' # how the mark of a placeholder begins

case $SLURM_SCRIPT_CONTEXT in
  prolog_slurmd | prolog_slurmctld) word=lock ;;
  epilog_slurmd | epilog_slurmctld) word=unlock ;;
  *) exit 0 ;;
esac

# shellcheck source=site.sh
. site.sh # put in here when the script is made

# Any owner can write a mark into `extra`. A job is skipped only if admin_comment has it too.
if [[ $SLURM_JOB_EXTRA == *"$MARK"* ]]; then
  prove
  [[ $proven == yes ]] && exit 0
fi

if [[ $SLURMD_NODENAME ]]; then nodes=("$SLURMD_NODENAME"); else nodes_of_job; fi
deadline=$((SECONDS + HOLD))
for node in "${nodes[@]}"; do
  while left=$((deadline - SECONDS)) && ((left > 0)); do
    case $(post_to "nodes/$node/$word?job=$SLURM_JOB_ID" "$left") in
      2* | 4*) break ;; # done; or a wrong key or address, or an older extender: retrying does not help
      *) sleep 1 ;;
    esac
  done
done
exit 0
