# shellcheck shell=bash
# What the scripts of slurm.conf have in common. Needs $HOOKS, $KEY_FILE, $CONF and $MARK; sets what post.sh needs.
#
# Job names, comments and `extra` are the text of a job's owner and may hold anything, newlines included. No script reads
# them out of a command's output: read_job asks for fields of a fixed width of which owners write none.

hooks=${HOOKS%/}
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
token=$(<"$KEY_FILE")
export SLURM_EXTENDER_TOKEN=$token # for post_by_bash
[[ -z $SLURM_CONF && $CONF ]] && export SLURM_CONF=$CONF
[[ $SLURM_JOB_ID && $SLURM_JOB_ID != *[!0123456789]* ]] || exit 0

# nodes_of_job: sets the array $nodes.
nodes_of_job() {
  nodes=("$SLURM_JOB_NODELIST")
  [[ $SLURM_JOB_NODELIST == *[[,]* ]] && mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
}

# read_job JOB: sets $state, how often the job ran before in $restarts, and the first line of its admin_comment in
# $written, which no owner of a job can write. All are "" where slurmctld does not say. Arrays and heterogeneous jobs
# have a line for each part: that of this very id counts.
# shellcheck disable=SC2034 # not every script needs all of them
read_job() {
  local id
  while read -r id state restarts written; do
    [[ $id == "$1" ]] && return
  done < <(timeout 4 squeue --noheader --all --local --states=all --jobs="$1" \
    --Format=JobID:12,State:24,RestartCnt:12,admin_comment:1025 2>/dev/null)
  state='' restarts='' written=''
}

# prove: sets $proven to yes or no, by the mark in admin_comment; "" where slurmctld does not say.
prove() {
  [[ $proven ]] && return
  read_job "$SLURM_JOB_ID"
  [[ $state ]] || return
  if [[ $written == *"$MARK"* ]]; then proven=yes; else proven=no; fi
}
proven=

# shellcheck source=post.sh
. post.sh # put in here when the script is made
