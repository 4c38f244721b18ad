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
[[ $SLURM_JOB_ID =~ ^[0-9]{1,10}$ ]] || exit 0
ODD='*[][:space:][:cntrl:]/?#%&*=,:"$`\\;<>|(){}!'"'"'[]*' # in no name of a node; nothing is written or asked under such a name
# shellcheck disable=SC2053 # a pattern
[[ $SLURMD_NODENAME == $ODD || $SLURMD_NODENAME == -* ]] && exit 0

# names_in HOSTLIST: appends its names to $found; fails, without any, for what is no hostlist of up to 65,536 names.
names_in() {
  local rest=$1, heads=('') more head part low high number names=()
  while [[ $rest ]]; do
    more=()
    if [[ $rest == ,* ]]; then
      names+=("${heads[@]}") heads=('') rest=${rest#,}
      continue
    elif [[ $rest =~ ^\[([0-9,-]+)\](.*)$ ]]; then
      rest=${BASH_REMATCH[2]}
      for part in ${BASH_REMATCH[1]//,/ }; do
        [[ $part =~ ^([0-9]{1,9})(-([0-9]{1,9}))?$ ]] || return
        low=$((10#${BASH_REMATCH[1]})) high=$((10#${BASH_REMATCH[3]:-${BASH_REMATCH[1]}}))
        (((high - low + 1) * ${#heads[@]} + ${#more[@]} + ${#names[@]} <= 65536)) || return
        for ((; low <= high; low++)); do
          printf -v number '%0*d' "${#BASH_REMATCH[1]}" "$low"
          for head in "${heads[@]}"; do
            more+=("$head$number")
          done
        done
      done
    elif [[ $rest =~ ^([^][,]+)(.*)$ ]]; then
      rest=${BASH_REMATCH[2]}
      for head in "${heads[@]}"; do
        more+=("$head${BASH_REMATCH[1]}")
      done
    else
      return 1
    fi
    heads=("${more[@]}")
  done
  found+=("${names[@]}")
}

# nodes_of_job: sets the array $nodes. Slurm's commands may not be in PATH, or not find slurm.conf: a job whose nodes are
# not known would start beside Pods that outlive theirs.
nodes_of_job() {
  local node found=("$SLURM_JOB_NODELIST")
  if [[ $SLURM_JOB_NODELIST == *[[,]* ]]; then
    mapfile -t found < <(scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null)
    ((${#found[@]})) || names_in "$SLURM_JOB_NODELIST"
  fi
  nodes=()
  for node in "${found[@]}"; do
    # shellcheck disable=SC2053 # a pattern
    [[ -z $node || $node == $ODD || $node == -* ]] || nodes+=("$node")
  done
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
