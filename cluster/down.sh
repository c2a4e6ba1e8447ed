#!/usr/bin/env bash
# Stops every process of the cluster that up.sh recorded, and removes all that it stored.
set -euo pipefail
# shellcheck source=cluster/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [ ! -e "$run/$marker" ]; then
  say "No cluster at $run."
  exit 0
fi

# In reverse: whoever uses a process ends before it does.
while IFS= read -r name; do
  if is_running "$name"; then say "  stopping $name"; fi
  case $name in
    # INT is PostgreSQL's fast shutdown: it does not wait for clients. USR1 is HAProxy's soft stop, TERM its quick one.
    *-postgres) stop "$name" INT ;;
    *) stop "$name" TERM ;;
  esac
done < <(tac "$run/order" 2>/dev/null)

if [ -e "$run/data-path" ]; then remove_folder "$(cat "$run/data-path")"; fi
remove_folder "$run"
say "The cluster is gone."
