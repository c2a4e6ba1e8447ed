# shellcheck shell=bash
# What up.sh and down.sh share: where the cluster lives, as whom it runs, and how its processes are started and
# stopped. Sourced, never run.
#
# State: $run/pids/NAME (pid and start time of a process, which together are never another process's), $run/order
# (their names in the order of their start), $run/data-path (where everything else lives).

cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=${RELAY_CLUSTER_DIR:-$cluster/.run}
marker=.relay-cluster
service_user=postgres
# Everything that the processes store; up.sh may put it elsewhere.
data=$run/data
# The process to blame, by the name of its log, when a step fails.
failed=

say() { printf '%s\n' "$*"; }
die() {
  printf 'cluster: %s\n' "$*" >&2
  exit 1
}
is_root() { [ "$(id -u)" -eq 0 ]; }

# What a command is put behind to run it as the service user (as ourselves, when we are unprivileged) without the
# variables that would configure a relay. Ends in `env`, so that assignments may follow.
launcher=(env)
while IFS= read -r name; do launcher+=(-u "$name"); done < <(compgen -e | grep '^RELAY_' || true)
if is_root; then
  launcher=(setpriv --reuid "$service_user" --regid "$service_user" --init-groups "${launcher[@]}" HOME=/)
fi
as_service() { "${launcher[@]}" "$@"; }

# start_time PID: when it started, in clock ticks since boot; empty when it is gone, or only waits to be buried.
start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  # The name in the second field may hold spaces: count behind its closing bracket.
  awk '$1 != "Z" && $1 != "X" { print $20 }' <<<"${stat##*) }"
}

# start NAME COMMAND...: runs it in the background as the service user, apart from this terminal, and records it.
start() {
  local name=$1 pid
  shift
  (
    cd "$data" || exit
    # `exec` and `setsid` keep the pid: what is recorded is the process itself, no wrapper.
    exec setsid "${launcher[@]}" "$@" </dev/null >>"$data/log/$name.log" 2>&1
  ) &
  pid=$!
  printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$run/pids/$name"
  printf '%s\n' "$name" >>"$run/order"
}

# is_running NAME: is the recorded process still there, and still ours?
is_running() {
  local pid started
  read -r pid started <"$run/pids/$1" 2>/dev/null || return 1
  [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ]
}

# stop NAME SIGNAL: asks the process to end, kills it after 15 s, and returns when it is gone.
stop() {
  local name=$1 signal=$2 pid
  is_running "$name" || return 0
  read -r pid _ <"$run/pids/$name"
  kill "-$signal" "$pid" 2>/dev/null || true
  for _ in $(seq 150); do
    is_running "$name" || return 0
    sleep 0.1
  done
  say "  $name did not end within 15 s: killed"
  kill -KILL "$pid" 2>/dev/null || true
  while is_running "$name"; do sleep 0.1; done
}

# wait_until SECONDS NAME COMMAND...: tries it until it succeeds; fails at once when the process NAME is gone.
wait_until() {
  local limit=$1 name=$2
  shift 2
  for _ in $(seq $((limit * 10))); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    is_running "$name" || break
    sleep 0.1
  done
  failed=$name
  return 1
}

# Shows the last words of the process to blame.
show_failed_log() {
  local log=$data/log/$failed.log
  if [ -z "$failed" ] || [ ! -s "$log" ]; then return 0; fi
  printf 'The end of %s.log:\n' "$failed"
  tail -n 20 "$log" | sed 's/^/  | /'
}

# free_port VARIABLE: sets it to a port of the loopback address on which nobody listens. Below those that the system
# gives to outgoing connections, so that none of them takes it before it is used.
declare -A ports_taken=()
free_port() {
  local candidate
  for _ in $(seq 200); do
    candidate=$((20000 + RANDOM % 10000))
    [ -z "${ports_taken[$candidate]:-}" ] || continue
    if (exec 3<>"/dev/tcp/127.0.0.1/$candidate") 2>/dev/null; then continue; fi
    ports_taken[$candidate]=yes
    printf -v "$1" '%s' "$candidate"
    return 0
  done
  die "no free port was found"
}

# remove_folder FOLDER: only one that up.sh made.
remove_folder() {
  [ ! -e "$1/$marker" ] || rm -rf -- "$1"
}
