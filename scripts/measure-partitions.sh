#!/usr/bin/env bash
# Measures what partitions of messages cost PostgreSQL: scripts/measure-partitions.sh [COUNT...], 369 and 30 by default.
#
# A server of its own with PostgreSQL's default settings, 100,000 messages of 10,000 mailboxes over the latest 30 days;
# one client reads mailboxes as the relay does (a generic plan, from yesterday on, and from the beginning) and appends.
# Then 40 clients connect anew for each read, so that all plan at once: how many fail for want of locks.
set -euo pipefail

tools=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -1)
seconds=${SECONDS_EACH:-5}
folder=$(mktemp -d -t relay-partitions-XXXXXX)
as=()
if [[ $(id -u) == 0 ]]; then
  as=(setpriv --reuid postgres --regid postgres --clear-groups)
  chown postgres "$folder"
fi
cd "$folder"
trap '"${as[@]}" "$tools/pg_ctl" --pgdata "$folder/data" --mode immediate stop >/dev/null; rm -rf "$folder"' EXIT
"${as[@]}" "$tools/initdb" --pgdata "$folder/data" --username relay --auth trust --no-sync >/dev/null
"${as[@]}" "$tools/pg_ctl" --pgdata "$folder/data" --log "$folder/log" --wait \
  --options "-c listen_addresses='' -c unix_socket_directories='$folder'" start >/dev/null
export PGHOST=$folder PGUSER=relay PGDATABASE=postgres
export PGOPTIONS="-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off"

columns='sequence, type, source, sent, message, fingerprint'
where='account = :account AND device = 1'
echo "\\set account random(1, 10000)
SELECT day, $columns FROM messages WHERE $where AND day >= current_date - 1 AND sequence > 0 ORDER BY sequence LIMIT 50;
" >recent.sql
echo "\\set account random(1, 10000)
SELECT day, $columns FROM messages WHERE $where AND day >= '2000-01-01' AND sequence > 0 ORDER BY sequence LIMIT 50;
" >all.sql
echo "\\set account random(1, 10000)
INSERT INTO messages SELECT :account, 1, nextval('message_sequence'), current_date, 1, 7, 7, 'x', gen_random_uuid()
WHERE NOT EXISTS (SELECT FROM messages WHERE $where AND fingerprint = gen_random_uuid() AND day >= current_date - 1)
ON CONFLICT (account, device, fingerprint, day) DO NOTHING;
" >append.sql

# Partitions of `days` each, `count` of them, the last for tomorrow.
lay_out() {
  psql --quiet --set ON_ERROR_STOP=1 <<SQL
SET client_min_messages = warning;
CREATE SEQUENCE message_sequence;
CREATE TABLE messages (
  account bigint NOT NULL, device integer NOT NULL, sequence bigint NOT NULL, day date NOT NULL, type smallint NOT NULL,
  source bigint NOT NULL, sent bigint NOT NULL, message bytea, fingerprint uuid NOT NULL,
  PRIMARY KEY (account, device, sequence, day), UNIQUE (account, device, fingerprint, day)
) PARTITION BY RANGE (day);
CREATE INDEX ON messages (sequence);
DO \$\$
DECLARE behind date := current_date + 2; first date;
BEGIN
  FOR i IN 1..$1 LOOP
    first := behind - $2;
    EXECUTE format('CREATE TABLE messages_%s PARTITION OF messages FOR VALUES FROM (%L) TO (%L)', i, first, behind);
    behind := first;
  END LOOP;
END \$\$;
INSERT INTO messages SELECT 1 + i % 10000, 1, nextval('message_sequence'), current_date - i % 30, 1, i, i, 'x',
  gen_random_uuid() FROM generate_series(1, 100000) AS i;
ANALYZE messages;
SQL
}

latency() {
  "$tools/pgbench" --no-vacuum --protocol prepared --client 1 --time "$seconds" --file "$1" 2>&1 |
    sed -n 's/^latency average = //p'
}

printf '%10s %6s %14s %14s %14s %s\n' partitions days 'recent days' 'all days' append 'failed, 40 planners'
for count in "${@:-369 30}"; do
  for partitions in $count; do
    days=$((369 / partitions > 0 ? (369 + partitions - 1) / partitions : 1))
    PGDATABASE=postgres "$tools/createdb" "messages_$partitions"
    export PGDATABASE=messages_$partitions
    lay_out "$partitions" "$days"
    recent=$(latency recent.sql) all=$(latency all.sql) append=$(latency append.sql)
    failed=$({ "$tools/pgbench" --no-vacuum --connect --client 40 --time "$seconds" --file all.sql 2>&1 || true; } |
      grep -c 'out of shared memory' || true)
    printf '%10s %6s %14s %14s %14s %s\n' "$partitions" "$days" "$recent" "$all" "$append" "$failed clients"
  done
done
