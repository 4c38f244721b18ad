# shellcheck shell=bash
# How the scripts on Slurm's nodes call the hooks: by curl, by bash itself for http, or by wget. Needs $hooks and $token.

# post PATH SECONDS: tells the hooks about this job; prints the HTTP status, 000 if there was no answer.
post() {
  post_to "jobs/$SLURM_JOB_ID/$1" "$2"
}

# post_to PATH SECONDS: the same for any path below /hooks.
post_to() {
  local url=$hooks/hooks/$1 limit=$2 status
  # The token never stands on a command line, where every user of the node could read it.
  if command -v curl >/dev/null; then
    local quoted=${token//\\/\\\\}
    status=$(printf 'header = "Authorization: Bearer %s"\n' "${quoted//\"/\\\"}" |
      curl --disable --config - --silent --globoff --proto '=http,https' --request POST --data '' \
        --connect-timeout 2 --max-time "$limit" --max-filesize 1048576 \
        --output /dev/null --write-out '%{http_code}' "$url")
  elif [[ $url == http://* ]]; then
    status=$(post_by_bash "$url" "$limit")
  elif command -v wget >/dev/null; then
    status=$(WGETRC=<(printf 'header = Authorization: Bearer %s\n' "$token") \
      timeout "$limit" wget --quiet --tries=1 --timeout="$limit" --max-redirect=0 --server-response \
        --post-data='' --output-document=/dev/null "$url" 2>&1 |
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
  if [[ $address == *:* && $address != *']' ]]; then
    host=${address%:*} port=${address##*:}
  fi
  host=${host#[} host=${host%]}
  # shellcheck disable=SC2016 # expanded by the second bash
  timeout "$2" "$BASH" -c '
    exec 3<>"/dev/tcp/$1/$2" || exit
    printf "POST /%s HTTP/1.1\r\nHost: %s\r\n" "$4" "$3" >&3
    printf "Authorization: Bearer %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" "$SLURM_EXTENDER_TOKEN" >&3
    read -r -n 64 version status _ <&3
    [[ $version == HTTP/* && $status == [1-5][0-9][0-9] ]] && printf %s "$status"
  ' bash "$host" "$port" "$address" "${rest#*/}" 2>/dev/null
}
