#!/bin/bash
# The job of `slurm-extender doctor --submit-probe`: calls the hooks once from this node, and says by its exit code what came
# of it: 0 the hooks' answer, 11 none, 12 one whose certificate this node does not trust, 13 a 5xx, 14 no program here speaks
# https, 15 an answer of something else, or no job.

HOOKS= # their base address

hooks=${HOOKS%/}
token=
export SLURM_EXTENDER_TOKEN=
[[ $SLURM_JOB_ID =~ ^[0-9]{1,10}$ ]] || exit 15 # nothing else stands in a URL

# shellcheck source=post.sh
. post.sh # put in here when the script is made

if [[ $hooks == https://* ]] && ! command -v curl >/dev/null && ! command -v wget >/dev/null; then
  exit 14
fi
status=$(post started 10)
case $status in
  000)
    if [[ $hooks == https://* ]] && command -v curl >/dev/null &&
      curl --disable --insecure --silent --output /dev/null --max-time 10 "$hooks"; then
      exit 12
    fi
    exit 11
    ;;
  5*) exit 13 ;;
  202) exit 0 ;; # what the hooks say to any job
esac
exit 15
