#!/bin/bash
# Keep the next job of a Slurm node from starting while the Pod of an ended placeholder job is still there. Use this one
# file in slurm.conf; the last two lines on slurmctld's machine:
#     Epilog=/etc/slurm/slurm-extender-fence.sh
#     EpilogSlurmctld=/etc/slurm/slurm-extender-fence.sh
#     PrologSlurmctld=/etc/slurm/slurm-extender-fence.sh
#
# As Epilog of a placeholder job it calls the hooks until the Pod is gone. Before HOLD seconds are over it requests a
# drain of the node from the hooks. If the extender does not answer, it drains the node itself, with a reason that the
# extender recognises, and lifts when the Pod is gone. It fails ("Epilog error") only if this is not possible either.
# As EpilogSlurmctld it holds nothing: it reports the end within milliseconds, for nodes without slurmd too.
#
# As PrologSlurmctld it writes a note of each placeholder job for each of its nodes: a Pod may be there. A job without
# a note of another job on its nodes starts at once, without a network call. Any other job is CONFIGURING until the
# hooks answer that no Pod outlives its job on these nodes; then the notes of ended jobs are removed. It never fails,
# since Slurm would requeue or cancel a job of another user. Do not use it as Prolog=: Slurm holds or requeues a batch
# job that waits there for longer than the lifetime of its credential (60 s with cred/slurm) or than
# BatchStartTimeout.

HOOKS= # base URL of the hooks
KEY_FILE=/etc/slurm/slurm-extender.key # the site key (hooks.siteKeyFile); readable by root and SlurmUser alone
HOLD=8 # seconds of an Epilog; below SlurmdTimeout, and below the 14 s after which Slurm preempts a further victim
CONF= # slurm.conf, if Slurm's commands do not find it: slurmctld does not pass SLURM_CONF to its scripts
NOTES=/var/lib/slurm-extender # a folder on slurmctld's machine; SlurmUser's
MARK='{"slurm-extender":1,' # how the mark of a placeholder begins

# A hint alone, since any owner can write it; what rests on it is proven below.
ours=
[[ $SLURM_JOB_EXTRA == *"$MARK"* ]] && ours=1
shopt -s nullglob
case $SLURM_SCRIPT_CONTEXT in
  prolog_slurmctld)
    # A colon is in no name of a node.
    if [[ -z $ours ]]; then
      notes=("$NOTES/$SLURM_JOB_NODELIST:"*)
      [[ $SLURM_JOB_NODELIST == *[[,]* ]] && notes=("$NOTES/"*)
      ((${#notes[@]})) || exit 0
    fi
    ;;
  epilog_slurmd | epilog_slurmctld | note_keeper) [[ $ours ]] || exit 0 ;;
  *) exit 0 ;;
esac

# shellcheck source=site.sh
. site.sh # put in here when the script is made

# others NODE: the notes of this node that are not of this very run of the job; fails where there are none.
others() {
  local note job
  others=() ids=
  for note in "$NOTES/$1:"*; do
    job=${note##*:}
    [[ $job == "$SLURM_JOB_ID" && -z ${again[$1]} || -z $job || $job == *[!0123456789]* ]] && continue
    others+=("$note") ids+=${ids:+,}$job
    ((${#others[@]} < 500)) || break # the rest by the next call: the hooks take 8,000 characters
  done
  ((${#others[@]}))
}

# Without an answer: check that each job with a note runs, and for the first time. No Pod outlives it then.
all_run() {
  local note
  for note in "${others[@]}"; do
    read_job "${note##*:}"
    [[ $state == @(RUNNING|CONFIGURING) && $restarts == 0 ]] || return
  done
}

# wait_until_clear NODE: return when no Pod on the node outlives its job, without a time limit. An administrator who
# knows that the node is empty removes the notes.
wait_until_clear() {
  local look=$((SECONDS + 5)) limit='' note
  while others "$1"; do
    case $(post_to "nodes/$1/clear?wait=10&jobs=$ids${limit:+&limit=$limit}" 13) in
      200)
        for note in "${others[@]}"; do
          [[ $note == *":$SLURM_JOB_ID" ]] || rm -f -- "$note"
        done
        ((${#others[@]} < 500)) && return
        ;;
      204) return ;; # there are Pods whose jobs run
      202) # report PrologEpilogTimeout; the doctor warns if it is too short
        [[ $limit ]] || limit=$(scontrol show config 2>/dev/null | sed -n 's/^PrologEpilogTimeout *= *\([0-9]\{1,9\}\).*/\1/p;T;q')
        ;;
      4*) return ;; # a wrong key or address, or an older extender: retrying does not help
      *)
        all_run && return
        sleep 2
        ;;
    esac
    # A job that ended meanwhile waits no longer. The time limit of the others grows by the wait (`job_mgr.c`, job_config_fini).
    if ((SECONDS >= look)); then
      look=$((SECONDS + 60))
      read_job "$SLURM_JOB_ID"
      [[ $state == @(''|RUNNING|CONFIGURING) ]] || return
    fi
  done
}

# settle SECONDS: remove the notes of this job whose node is clear; fails while there are others.
settle() {
  local note node left=0
  for note in "$NOTES/"*":$SLURM_JOB_ID"; do
    node=${note##*/}
    if [[ $(post_to "nodes/${node%:*}/clear?wait=$1&jobs=$SLURM_JOB_ID" $(($1 + 3))) == 200 ]]; then
      rm -f -- "$note"
    else
      left=1
    fi
  done
  ((left == 0))
}

case $SLURM_SCRIPT_CONTEXT in
  prolog_slurmctld)
    nodes_of_job
    if [[ $ours ]]; then
      prove
      [[ $proven == no ]] && ours=
    fi
    declare -A again # by node: this job ran here before, and its Pod of then may still be there
    for node in "${nodes[@]}"; do
      [[ -e $NOTES/$node:$SLURM_JOB_ID ]] && again[$node]=1
    done
    if [[ $ours ]]; then
      for node in "${nodes[@]}"; do
        : >"$NOTES/$node:$SLURM_JOB_ID"
      done
    fi
    for node in "${nodes[@]}"; do
      wait_until_clear "$node"
    done
    exit 0
    ;;
  epilog_slurmctld)
    post 'teardown?wait=0' 3 >/dev/null
    # Notes of Pods that take longer have a process of their own: none is to be left when the extender goes away.
    if ! settle 0; then
      SLURM_SCRIPT_CONTEXT=note_keeper setsid "$BASH" "$0" </dev/null >/dev/null 2>&1 &
    fi
    exit 0
    ;;
  note_keeper)
    until settle 10 || ((SECONDS > 3600)); do
      sleep 5
    done
    exit 0
    ;;
esac

LAST=3 # seconds of HOLD that are kept for the drain
deadline=$((SECONDS + HOLD))
while left=$((deadline - LAST - SECONDS)) && ((left > 0)); do
  # The node is named for the evidence that its fence works: after every placeholder job this call comes.
  case $(post "teardown?wait=$left&node=$SLURMD_NODENAME" "$((left + 1))") in
    200 | 404) exit 0 ;; # the Pod is gone, or the job is no placeholder job
    202) ;;
    *) sleep 1 ;;
  esac
done

# Answered when slurmctld has taken the drain, or there is no such Pod any more.
[[ $(post_to "nodes/$SLURMD_NODENAME/drain" "$LAST") == 20[02] ]] && exit 0

# A node that is drained or called FAIL keeps its reason, which may be an administrator's: Slurm allocates nothing there.
node=$(scontrol --oneliner show node "$SLURMD_NODENAME" 2>/dev/null)
node_state='' owner='' before=''
[[ $node =~ \ State=([^\ ]+) ]] && node_state=${BASH_REMATCH[1]} # of several the first: reasons come after it
[[ $node_state == *DRAIN* || $node_state == *FAIL* ]] && exit 0
# The owner of a job must not drain a node in the extender's name by text in `extra`. If slurmctld does not report the
# user of the job, Slurm holds the node, because this Epilog fails.
prove
[[ $proven == no ]] && exit 0
if [[ -z $proven ]]; then
  echo "slurm-extender: neither the extender nor slurmctld answers whether job $SLURM_JOB_ID had a Pod, so this Epilog fails." \
    "Slurm drains $SLURMD_NODENAME for that: look for a Pod there, then resume the node." >&2
  exit 1
fi
# The former reason of a node that is DOWN stays in the reason; the extender restores it when it lifts the drain.
[[ $node_state == DOWN* && $node =~ \ Reason=(.+)\ \[[^][@\ ]+@[0-9T:-]+\] &&
  ${BASH_REMATCH[1]} != slurm-extender:* ]] && before=" <DOWN before: ${BASH_REMATCH[1]:0:80}>"
# Several extenders may serve one Slurm: the drain names the one whose job it was, as that does itself.
[[ $written =~ \"c\":\"[^\"]*\",\"s\":\"[^\"]*\" ]] && owner=$(printf %s "${BASH_REMATCH[0]}" | sha256sum)
exec scontrol update "nodename=$SLURMD_NODENAME" state=drain \
  "reason=slurm-extender:${owner:+ [${owner:0:8}]} job $SLURM_JOB_ID ended, and the extender did not answer its Epilog$before"
