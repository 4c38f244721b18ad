#!/bin/bash
# The placeholder job of a Kubernetes Pod: it computes nothing and holds the Pod's share of the node.
#
# It reports its start to the extender and sleeps. When Slurm ends it (TERM: cancel, time limit, preemption) or warns it
# (USR1: PreemptParameters=send_user_signal), it reports that and waits until the Pod is gone. When the Pod has ended by
# itself, the extender signals this script alone, which then ends like the Pod: USR2 succeeded, HUP failed. The comment
# of the job has the details. Every report is a hint: the extender learns the same from Slurm later.
#
# SLURM_EXTENDER_HOOKS  base URL of the hooks; empty: sleep only
# SLURM_EXTENDER_TOKEN  proves that the caller is this job
# SLURM_EXTENDER_WAIT   seconds to wait for the Pod at the end; must be below Slurm's KillWait

hooks=${SLURM_EXTENDER_HOOKS%/}
token=$SLURM_EXTENDER_TOKEN
wait_s=${SLURM_EXTENDER_WAIT:-20}
# Numbers are checked: bash runs commands that stand in an arithmetic expression.
[[ $wait_s =~ ^[0-9]{1,5}$ ]] || wait_s=20
wait_s=$((10#$wait_s))
[[ $SLURM_JOB_ID =~ ^[0-9]{1,10}$ ]] || hooks=
[[ $token == *[^[:graph:]]* ]] && hooks=

# shellcheck source=post.sh
. post.sh # put in here when the script is made

# A hint about the start, given in the background: a Pod must not wait because the extender is away for a moment.
report_started() {
  local pause
  for pause in 1 2 4 8 0; do
    [[ $(post started 5) == [24]* ]] && return
    sleep "$pause"
  done
}

# A warning ends nothing yet: the extender reads the job and ends the Pod early.
warned() {
  [[ -n $hooks ]] && (trap '' TERM USR1 USR2 HUP; post 'teardown?wait=0' 5) >/dev/null &
}

# Asks until the Pod is gone (200), the extender does not know the job (404), or the time is over.
ended() {
  trap '' TERM USR1 USR2 HUP # also for curl, which inherits it: Slurm may signal the whole process group again
  # shellcheck disable=SC2046 # one word for each job
  kill $(jobs -p) 2>/dev/null
  local left status deadline=$((SECONDS + wait_s))
  while [[ -n $hooks ]] && left=$((deadline - SECONDS)) && ((left > 0)); do
    status=$(post "teardown?wait=$left" "$((left + 1))")
    [[ $status == 200 || $status == 404 ]] && break
    sleep 1
  done
  exit 0
}

# finished CODE: the Pod is over, so there is nothing to wait for.
finished() {
  trap '' TERM USR1 USR2 HUP
  # shellcheck disable=SC2046 # one word for each job
  kill $(jobs -p) 2>/dev/null
  exit "$1"
}

trap ended TERM
trap warned USR1
trap 'finished 0' USR2
trap 'finished 1' HUP

[[ -n $hooks ]] && report_started >/dev/null 2>&1 &

# bash runs a trap only when no foreground command is left, so the sleep is in the background and waited for.
while :; do
  sleep 86400 &
  wait $!
done
