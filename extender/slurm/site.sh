# shellcheck shell=bash
# What the scripts of slurm.conf have in common. Needs $HOOKS, $KEY_FILE and $CONF; sets what post.sh needs.

hooks=${HOOKS%/}
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
token=$(<"$KEY_FILE")
export SLURM_EXTENDER_TOKEN=$token # for post_by_bash
[[ -z $SLURM_CONF && $CONF ]] && export SLURM_CONF=$CONF

# nodes_of_job: sets the array $nodes.
nodes_of_job() {
  nodes=("$SLURM_JOB_NODELIST")
  [[ $SLURM_JOB_NODELIST == *[[,]* ]] && mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
}

# shellcheck source=post.sh
. post.sh # put in here when the script is made
