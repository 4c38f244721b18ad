#!/bin/bash
# The placeholder of a Kubernetes Pod: it computes nothing, it holds the Pod's share of the node.
#
# It tells the extender that it started, sleeps, and when Slurm ends it (TERM: cancel, time limit, preemption) or warns it
# (USR1: PreemptParameters=send_user_signal) it tells the extender, and waits for the Pod to be gone before it lets go.
# When the Pod has ended by itself, the extender says so by a signal for this script alone, which then ends as the Pod did:
# USR2 well, HUP as failed. How exactly the Pod ended stands in the comment of the job.
# Everything it says is a hint: the extender learns the same from Slurm itself, later.
#
# SLURM_EXTENDER_HOOKS  base URL of the hooks; empty: sleep only
# SLURM_EXTENDER_TOKEN  proves that the caller is this job
# SLURM_EXTENDER_WAIT   seconds to wait for the Pod at the end; must be below Slurm's KillWait

hooks=${SLURM_EXTENDER_HOOKS%/}
token=$SLURM_EXTENDER_TOKEN
wait_s=${SLURM_EXTENDER_WAIT:-20}

# post PATH SECONDS: prints the HTTP status, 000 if there was no answer.
post() {
  local url=$hooks/hooks/jobs/$SLURM_JOB_ID/$1 limit=$2 status
  # The token never stands on a command line, where every user of the node could read it.
  if command -v curl >/dev/null; then
    status=$(printf 'header = "Authorization: Bearer %s"\n' "$token" |
      curl --disable --config - --silent --request POST --data '' --connect-timeout 2 --max-time "$limit" \
        --output /dev/null --write-out '%{http_code}' "$url")
  elif [[ $url == http://* ]]; then
    status=$(post_by_bash "$url" "$limit")
  elif command -v wget >/dev/null; then
    status=$(WGETRC=<(printf 'header = Authorization: Bearer %s\n' "$token") \
      wget --quiet --tries=1 --timeout="$limit" --server-response --post-data='' --output-document=/dev/null "$url" 2>&1 |
      sed -n 's|^ *HTTP/[0-9.]* \([0-9]*\).*|\1|p' | tail -n 1)
  fi
  printf '%s' "${status:-000}"
}

# post_by_bash URL SECONDS: the same for http without any client program. A connection through /dev/tcp knows no limit of
# its own, so that a second bash makes it, which `timeout` ends.
post_by_bash() {
  local rest=${1#http://} address host port=80
  address=${rest%%/*}
  host=$address
  if [[ $address == *:* && $address != *] ]]; then
    host=${address%:*} port=${address##*:}
  fi
  host=${host#[} host=${host%]}
  # shellcheck disable=SC2016 # expanded by the second bash
  timeout "$2" "$BASH" -c '
    exec 3<>"/dev/tcp/$1/$2" || exit
    printf "POST /%s HTTP/1.1\r\nHost: %s\r\n" "$4" "$3" >&3
    printf "Authorization: Bearer %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" "$SLURM_EXTENDER_TOKEN" >&3
    read -r version status _ <&3 && [[ $version == HTTP/* ]] && printf %s "$status"
  ' bash "$host" "$port" "$address" "${rest#*/}" 2>/dev/null
}

# A hint about the start, given in the background: a Pod must not wait because the extender is away for a moment.
tell_started() {
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

# Asks until the Pod is gone (200), nobody knows of it (404), or the time is over.
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

[[ -n $hooks ]] && tell_started >/dev/null 2>&1 &

# bash runs a trap only when no foreground command is left, so the sleep is in the background and waited for.
while :; do
  sleep 86400 &
  wait $!
done
