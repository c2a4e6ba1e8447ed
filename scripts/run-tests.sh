#!/usr/bin/env bash
# Runs all tests of a finished debug build, in groups one after the other, and says at the end what failed.
#
# Not all at once: each suite starts processes and servers of its own, and on a machine of two cores a thousand of them
# together would test the machine's patience, not the relay. Those that measure time or kill things run by themselves.
# A group that fails does not keep the others from running, and one that hangs is ended.
#
# Tests that failed among others are run once more, by themselves: what fails again fails the run; what passes then was
# starved, and the summary names it. Many failures in one group are not starvation, and are not run again.
#
# Usage: scripts/run-tests.sh [swift-test-option ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

swift=${SWIFT:-swift}
options=("$@")
group_seconds_max=1200
rerun_max=8
# Inputs of each decoder, from one seed: nearly the same ones each time, so that what fails fails again as a rule.
fuzz_runs=20000
fuzz_seed=1
# The campaign's short form, about ten minutes in all: one schedule, few devices, since all of it shares two cores.
campaign=(--minutes 7 --seed 1 --devices 40 --lanes 4)
# Extended regular expressions over "Target.Suite/test()".
groups=(
  '^(RelayWork|RelayCore|RelayConfiguration|Directory|Attachments|Push|PushGateway)Tests\.'
  '^StorageTests\.'
  '^FederationTests\.'
  '^DeviceNotificationsTests\.'
  '^WakingTests\.'
  '^AdversaryTests\.'
  '^RelayTests\.C'
  '^RelayTests\.[ABD-K]'
  '^RelayTests\.[L-O]'
  '^RelayTests\.[P-Z]'
  '^RealClients\.'
  '^ClusterTests\.FourOperatorsTests'
  '^ClusterTests\.ChaosTests'
  '^ClusterTests\.RollingRestartTests'
  '^ClusterTests\.NewestConnectionTests'
  '^ClusterTests\.AcrossProcessesTests'
  '^ClusterTests\.LossLedgerTests'
)

# Results and output of what has run.
folder=$(mktemp -d)
log=$folder/log
failed=0
starved=()

# The fuzzers are compiled while tests wait for something, by what they leave of the cores.
binaries=$("$swift" build "${options[@]}" --show-bin-path)
nice -n 19 scripts/build-fuzzer.py .build .build-fuzz >"$folder/fuzzers" 2>&1 &
fuzzers=$!
trap 'kill "$fuzzers" 2>/dev/null || true; rm -rf "$folder"' EXIT

# run NAME SWIFT-TEST-OPTION...: results are in $folder/tests.xml, unless it crashed or hung.
run() {
  local name=$1
  shift
  printf '\n== %s\n' "$name" | tee -a "$log"
  rm -f "$folder/tests.xml"
  timeout --kill-after=30 "$group_seconds_max" "$swift" test --skip-build --disable-xctest \
    --xunit-output "$folder/tests.xml" "$@" "${options[@]}" 2>&1 | tee -a "$log"
}

# Of the last run, as regular expressions over "Target.Suite/test(labels:)", a line each.
failed_tests() {
  python3 - "$folder/tests.xml" <<'PYTHON'
import re
import sys
import xml.etree.ElementTree as xml

for case in xml.parse(sys.argv[1]).iter("testcase"):
    if case.find("failure") is not None or case.find("error") is not None:
        print("^" + re.escape(case.get("classname") + "/" + case.get("name")))
PYTHON
}

# Runs what failed once more, one test at a time.
# Fails unless all of it passes then.
rerun_failed() {
  local name=$1 tests=() test
  [[ -s $folder/tests.xml ]] || return 1
  mapfile -t tests < <(failed_tests)
  ((${#tests[@]} > 0 && ${#tests[@]} <= rerun_max)) || return 1
  for test in "${tests[@]}"; do
    run "$name, again: $test" --filter "$test" || return 1
    # What ran no test has shown nothing.
    grep -q '<testcase' "$folder/tests.xml" || return 1
  done
  starved+=("${tests[@]}")
}

# A crash or a hang leaves no results: then the group has failed.
for group in "${groups[@]}"; do
  run "$group" --filter "$group" || rerun_failed "$group" || failed=1
done
# What no group names, the suites of a new target too.
others=()
for group in "${groups[@]}"; do others+=(--skip "$group"); done
run 'all others' "${others[@]}" || rerun_failed 'all others' || failed=1

printf '\n== campaign\n' | tee -a "$log"
timeout --kill-after=30 "$group_seconds_max" "$binaries/relay-campaign" "${campaign[@]}" 2>&1 | tee -a "$log" || failed=1

# Every decoder of bytes from outside, a moment each: its corpus, and on from there (docs/fuzzing.md).
printf '\n== fuzzers\n' | tee -a "$log"
if wait "$fuzzers"; then
  scripts/fuzz-decoders.py .build-fuzz --runs "$fuzz_runs" --seed "$fuzz_seed" --seconds 120 2>&1 | tee -a "$log" ||
    failed=1
else
  tee -a "$log" <"$folder/fuzzers"
  failed=1
fi

# The package, of the program as it is built here (docs/deploy.md).
printf '\n== package\n' | tee -a "$log"
if (($(id -u) == 0)); then
  { scripts/link-static.py .build relay "$folder/relay" && scripts/check-package.sh "$folder/relay"; } 2>&1 |
    tee -a "$log" || failed=1
else
  echo 'left out: a tree of its own needs root' | tee -a "$log"
fi

# What failed is said last, where a log that was cut off still has it.
printf '\n== Summary\n'
grep -aE '^== |Test run with|executions, |BROKEN|messages a second: |passed, [0-9]+ failed|check-package: ' "$log" || true
((${#starved[@]} == 0)) || printf 'Passed only by itself: %s\n' "${starved[@]}"
grep -aE '✘ Test .* recorded an issue|error: ' "$log" | cut -c 1-600 | tail -n 30 || true
((failed == 0)) && echo 'All tests passed.' || echo 'Tests failed.'
exit "$failed"
