# shellcheck shell=bash
# The loop of a shell in which a page's blocks run: an order a line, "run FILE" or "serve FILE". After each that
# succeeds it says on descriptor 3 in which folder it is. A command that fails ends the shell, and with it the page.
set -euo pipefail
cd "$DOCS_FOLDER" # a host's shell starts elsewhere
[[ -z ${DOCS_OWN_NETWORK:-} ]] || ip link set lo up

daemon=
stop_daemon() {
  [[ -n $daemon ]] || return 0
  local children
  children=$(<"/proc/$daemon/task/$daemon/children")
  # shellcheck disable=SC2086 # one pid a word
  kill $children "$daemon" 2>/dev/null || true
  wait "$daemon" 2>/dev/null || true
  daemon=
}

while read -r verb file; do
  case $verb in
    run)
      # shellcheck disable=SC1090
      . "$file" </dev/null >"$file.out" 2>&1 3>&-
      ;;
    serve)
      stop_daemon
      # shellcheck disable=SC1090
      (. "$file") </dev/null >"$file.out" 2>&1 3>&- &
      daemon=$!
      until curl -fsSo /dev/null http://localhost:9090/readyz 2>/dev/null; do
        kill -0 "$daemon"
        sleep 0.1
      done
      ;;
  esac
  echo "$PWD" >&3
done
