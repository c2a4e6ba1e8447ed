#!/usr/bin/env bash
# Starts two operators, alpha and beta, as they would run in earnest: each with a PostgreSQL and a Redis of its own, two
# relay processes behind HAProxy, and peered with the other. Then holds the demo's conversation across them.
#
#   RELAY_BINARY       the relay to run; default: the debug build of this checkout
#   RELAY_CLUSTER_DIR  where its state lives; default: cluster/.run
#
# On success everything keeps running until down.sh. On failure everything is stopped and removed.
set -euo pipefail
# shellcheck source=cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

relay=${RELAY_BINARY:-$cluster/../.build/debug/relay}
step="looking around"

cleanup() {
  local status=$?
  trap - EXIT
  [ "$status" -ne 0 ] || exit 0
  printf '\ncluster: failed while %s\n' "$step" >&2
  show_failed_log >&2
  "$cluster/down.sh" >&2
  exit "$status"
}

# Sets $data, $relay, $postgres_bin: what everything else stands on.
prepare() {
  local tool
  for tool in setpriv setsid curl redis-server redis-cli haproxy psql; do
    command -v "$tool" >/dev/null || die "$tool is missing: run scripts/install-dependencies.sh"
  done
  postgres_bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
  [ -x "$postgres_bin/initdb" ] || die "PostgreSQL's initdb is missing: run scripts/install-dependencies.sh"
  [ -x "$relay" ] || die "there is no $relay: run make build"
  relay=$(realpath "$relay")
  if is_root; then
    id "$service_user" >/dev/null 2>&1 || die "as root, the user $service_user is needed to run the servers as"
  fi

  mkdir -p "$(dirname "$run")"
  # `mkdir` without -p: of two that start at once, one gets the folder.
  mkdir "$run" 2>/dev/null || die "a cluster is up, or its remains are there, at $run: run make cluster-down"
  touch "$run/$marker"
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  mkdir "$run/pids"
  # Folders above may be closed to the unprivileged user, as those below /root are.
  if is_root && ! as_service test -x "$run"; then data=$(mktemp -d /tmp/relay-cluster.XXXXXX); fi
  mkdir -p "$data/log"
  touch "$data/$marker"
  printf '%s\n' "$data" >"$run/data-path"
  chmod 700 "$data"

  if is_root; then
    chown -R "$service_user:$service_user" "$data"
    as_service test -x "$relay" || {
      say "  $service_user cannot reach $relay: it gets a copy"
      install -o "$service_user" -m 0500 "$relay" "$data/relay"
      relay=$data/relay
    }
  fi
}

# secret: 32 hexadecimal characters.
secret() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }
# encryption_key: base64 of 32 bytes.
encryption_key() { head -c 32 /dev/urandom | base64 -w 0; }

# own FILE: for the service user's eyes only.
own() {
  chmod 600 "$1"
  if is_root; then chown "$service_user:$service_user" "$1"; fi
}

# start_postgres OPERATOR: sets ${OPERATOR}_storage.
start_postgres() {
  local operator=$1 port password folder=$data/$1/postgres
  step="starting $operator's PostgreSQL"
  free_port port
  password=$(secret)
  printf '%s' "$password" >"$data/$operator/postgres-password"
  own "$data/$operator/postgres-password"
  as_service "$postgres_bin/initdb" --pgdata "$folder" --username relay --pwfile "$data/$operator/postgres-password" \
    --auth scram-sha-256 --encoding UTF8 --no-locale >>"$data/log/$operator-postgres.log" 2>&1
  start "$operator-postgres" "$postgres_bin/postgres" -D "$folder" -c listen_addresses=127.0.0.1 -c "port=$port" \
    -c unix_socket_directories=
  export PGPASSWORD=$password
  wait_until 30 "$operator-postgres" psql -h 127.0.0.1 -p "$port" -U relay -d postgres -c 'SELECT 1'
  psql -q -h 127.0.0.1 -p "$port" -U relay -d postgres -c 'CREATE DATABASE relay'
  unset PGPASSWORD
  printf -v "${operator}_storage" 'postgres://relay:%s@127.0.0.1:%s/relay' "$password" "$port"
  say "  $operator  PostgreSQL on 127.0.0.1:$port"
}

# start_redis OPERATOR: sets ${OPERATOR}_coordination.
start_redis() {
  local operator=$1 port password configuration=$data/$1/redis.conf
  step="starting $operator's Redis"
  free_port port
  password=$(secret)
  # What Redis holds may be lost: it keeps nothing on disk.
  printf '%s\n' "bind 127.0.0.1" "port $port" "requirepass $password" "dir $data/$operator" 'save ""' \
    "appendonly no" >"$configuration"
  own "$configuration"
  start "$operator-redis" redis-server "$configuration"
  export REDISCLI_AUTH=$password
  wait_until 15 "$operator-redis" redis_answers "$port"
  unset REDISCLI_AUTH
  printf -v "${operator}_coordination" 'redis://:%s@127.0.0.1:%s' "$password" "$port"
  say "  $operator  Redis on 127.0.0.1:$port"
}
redis_answers() { [ "$(redis-cli -h 127.0.0.1 -p "$1" ping)" = PONG ]; }

# choose_ports OPERATOR: for HAProxy and for two relays.
choose_ports() {
  local port
  for port in client federation one_client one_federation one_operator two_client two_federation two_operator; do
    free_port "${1}_${port}"
  done
}

# value OPERATOR NAME: the variable ${OPERATOR}_${NAME}.
value() {
  local variable="${1}_${2}"
  printf '%s' "${!variable}"
}

# environment OPERATOR PROCESS: fills $settings with the variables of one relay process.
environment() {
  local operator=$1 process=$2
  settings=(
    RELAY_NAME="$operator"
    RELAY_CLIENT_PORT="$(value "$operator" "${process}_client")"
    RELAY_OPERATOR_PORT="$(value "$operator" "${process}_operator")"
    RELAY_FEDERATION_PORT="$(value "$operator" "${process}_federation")"
    RELAY_FEDERATION_URL="https://127.0.0.1:$(value "$operator" federation)"
    RELAY_FEDERATION_DIRECTORY="$data/$operator/federation"
    RELAY_CLIENT_TRUSTED_PROXIES=127.0.0.1
    RELAY_STORAGE_URL="$(value "$operator" storage)"
    RELAY_STORAGE_ENCRYPTION_KEY="$(value "$operator" encryption_key)"
    RELAY_COORDINATION_URL="$(value "$operator" coordination)"
    RELAY_ATTACHMENTS_URL="file:$data/$operator/attachments"
    RELAY_DIRECTORY_SNAPSHOT="$data/$operator/directory.snapshot"
    RELAY_ATTACHMENTS_PUBLIC_URL="http://127.0.0.1:$(value "$operator" client)"
    RELAY_DEVELOPMENT_ENABLED=true
  )
}

# administer OPERATOR ARGUMENT...: runs a command of relay as the operator's administrator.
administer() {
  local operator=$1
  local -a settings
  shift
  environment "$operator" one
  failed=$operator-commands
  as_service env -C "$data" "${settings[@]}" "$relay" "$@" 2>>"$data/log/$failed.log"
  failed=
}

start_relays() {
  local operator=$1 process
  local -a settings
  step="making $operator's certificates"
  administer "$operator" ca init >/dev/null
  administer "$operator" ca issue >/dev/null
  step="migrating $operator's database"
  administer "$operator" migrate run >/dev/null
  for process in one two; do
    step="starting $operator's relay process $process"
    environment "$operator" "$process"
    start "$operator-relay-$process" "${settings[@]}" "$relay" serve
  done
  for process in one two; do
    step="waiting for $operator's relay process $process"
    wait_until 60 "$operator-relay-$process" is_ready "$(value "$operator" "${process}_operator")"
    say "  $operator  relay process $process, ready: http://127.0.0.1:$(value "$operator" "${process}_operator")/readyz"
  done
}
is_ready() { curl -fsS -o /dev/null --max-time 2 "http://127.0.0.1:$1/readyz"; }

start_haproxy() {
  local operator=$1 configuration=$data/$1/haproxy.cfg port process
  local -a substitutions=()
  step="starting $operator's HAProxy"
  # The file that operators use, for loopback and without TLS for clients.
  substitutions=(
    -e "s/bind :443 .*/bind 127.0.0.1:$(value "$operator" client)/"
    -e "s/bind :8443/bind 127.0.0.1:$(value "$operator" federation)/"
  )
  for process in one two; do
    for port in 8080:client 8081:operator 8443:federation; do
      substitutions+=(-e "/server $process/s/\\([: ]\\)${port%:*}\\b/\\1$(value "$operator" "${process}_${port#*:}")/")
    done
  done
  sed "${substitutions[@]}" -e 's/192\.0\.2\.[12]:/127.0.0.1:/' "$cluster/../deploy/haproxy/relay.cfg" >"$configuration"
  own "$configuration"
  failed=$operator-haproxy
  as_service haproxy -c -q -f "$configuration" >>"$data/log/$failed.log" 2>&1
  failed=
  # -db: stays in the foreground, so that the pid is its own.
  start "$operator-haproxy" haproxy -db -f "$configuration"
  # Through it, an unknown token without credentials is a relay's 401: HAProxy's own answers are 503.
  wait_until 15 "$operator-haproxy" answers "$(value "$operator" client)" 401
  say "  $operator  HAProxy: clients http://127.0.0.1:$(value "$operator" client)," \
    "peers https://127.0.0.1:$(value "$operator" federation)"
}
answers() {
  [ "$(curl -sS -o /dev/null -w '%{http_code}' --max-time 2 "http://127.0.0.1:$1/v1/keys")" = "$2" ]
}

make_peers() {
  local invitation
  step="peering alpha and beta"
  # The invitation alone is the last line.
  invitation=$(administer alpha peer invite | tail -n 1)
  administer beta peer accept "$invitation" >/dev/null
  say "  alpha and beta are peers:"
  administer alpha peer list | sed 's/^/    /'
}

prepare
say "Two operators, each with PostgreSQL, Redis, two relay processes and HAProxy:"
for operator in alpha beta; do
  mkdir "$data/$operator"
  if is_root; then chown "$service_user:$service_user" "$data/$operator"; fi
  choose_ports "$operator"
  printf -v "${operator}_encryption_key" '%s' "$(encryption_key)"
  start_postgres "$operator"
  start_redis "$operator"
  start_relays "$operator"
  start_haproxy "$operator"
done
make_peers

step="holding the conversation"
as_service "$relay" demo --exit \
  --alpha-url "http://127.0.0.1:$(value alpha client)" --beta-url "http://127.0.0.1:$(value beta client)"

say ""
say "The cluster is up:"
for operator in alpha beta; do
  printf '  %-6s clients   http://127.0.0.1:%s\n' "$operator" "$(value "$operator" client)"
  for process in one two; do
    port=$(value "$operator" "${process}_operator")
    say "         operator  http://127.0.0.1:$port/readyz and /metrics (process $process)"
  done
done
say "  logs   $data/log"
say "Try:  curl http://127.0.0.1:$(value alpha client)/v1/accounts/dev/code/+447700900999"
say "End:  make cluster-down"
