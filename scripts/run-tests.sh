#!/usr/bin/env bash
# Runs all tests of a finished debug build, in groups one after the other, and says at the end what failed.
#
# Not all at once: each suite starts processes and servers of its own, and on a machine of two cores a thousand of them
# together would test the machine's patience, not the relay. Those that measure time or kill things run by themselves.
# A group that fails does not keep the others from running.
#
# Usage: scripts/run-tests.sh [swift-test-option ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

swift=${SWIFT:-swift}
# Extended regular expressions over "Target.Suite/test()".
groups=(
  '^(RelayCore|RelayConfiguration|Directory|Attachments|Push|PushGateway)Tests\.'
  '^StorageTests\.'
  '^FederationTests\.'
  '^RelayTests\.C'
  '^RelayTests\.[ABD-K]'
  '^RelayTests\.[L-O]'
  '^RelayTests\.[P-Z]'
  '^ClusterTests\.FourOperatorsTests'
  '^ClusterTests\.ChaosTests'
  '^ClusterTests\.RollingRestartTests'
)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# run NAME SWIFT-TEST-OPTION...
run() {
  local name=$1
  shift
  printf '\n== %s\n' "$name" | tee -a "$log"
  "$swift" test --skip-build --disable-xctest "$@" 2>&1 | tee -a "$log" || failed=1
}

for group in "${groups[@]}"; do run "$group" --filter "$group" "$@"; done
# What no group names, the suites of a new target too.
others=()
for group in "${groups[@]}"; do others+=(--skip "$group"); done
run 'all others' "${others[@]}" "$@"

# What failed is said again, where a log that was cut off still has it.
printf '\n== Summary\n'
grep -aE '✘ Test .* recorded an issue|error: ' "$log" | cut -c 1-600 | tail -n 30 || true
grep -aE '^== |Test run with' "$log" || true
exit "$failed"
