#!/usr/bin/env bash
# Runs all tests of a finished debug build, in groups one after the other, and says at the end what failed and where
# the time went. A test that fails, fails the run: none is tried twice.
#
# Not all at once: each suite starts processes and servers of its own, and on a machine of two cores a thousand of them
# together would test the machine's patience, not the relay. The groups are those of the suites' tags
# (scripts/test-groups.py); suites that measure time or kill things run by themselves.
# A group that fails does not keep the others from running, and one that hangs is ended.
#
# The program of all tests runs as it is: `swift test` would read every package anew for each group, 20 seconds of two
# cores each time.
#
# Usage: scripts/run-tests.sh FOLDER
#   FOLDER  where the finished build's programs are
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

binaries=$1
group_seconds_max=1200
# Inputs of each decoder, from one seed: nearly the same ones each time, so that what fails fails again as a rule.
fuzz_runs=20000
fuzz_seed=1
# The campaign's short form, about five minutes in all: one schedule, few devices, since all of it shares two cores.
campaign=(--minutes 3 --seed 1 --devices 40 --lanes 4)
# A suite without a tag ends it here.
groups=$(scripts/test-groups.py)

# Into a pipe, too, the tests would write colours, and the summary below would not find its marks.
export NO_COLOR=1

# The output of each group that has run, and how long each took.
folder=$(mktemp -d)
log=$folder/log
failed=0

# The fuzzers are compiled while tests wait for something, by what they leave of the cores. Where Linux shares the cores
# between sessions, `nice` counts within one alone: the session itself must be told.
build=$(dirname "$(dirname "$(realpath "$binaries")")")
# shellcheck disable=SC2016
setsid sh -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$@"' sh \
  scripts/build-fuzzer.py "$build" .build-fuzz >"$folder/fuzzers" 2>&1 &
fuzzers=$!
trap 'kill -- "-$fuzzers" 2>/dev/null || true; rm -rf "$folder"' EXIT

# begin NAME: what follows is the group of that name.
begin() {
  group=$1
  group_began=$SECONDS
  printf '\n== %s\n' "$group" | tee -a "$log"
}

# ended: notes how long the group took.
ended() { printf '%6d s  %s\n' "$((SECONDS - group_began))" "$group" >>"$folder/seconds"; }

while IFS=$'\t' read -r name how expression; do
  begin "$name"
  how_options=()
  [[ $how != alone ]] || how_options=(--no-parallel)
  timeout --kill-after=30 "$group_seconds_max" "$binaries/relayPackageTests.xctest" --testing-library swift-testing \
    "${how_options[@]}" --filter "$expression" 2>&1 </dev/null | tee -a "$log" || failed=1
  ended
done <<<"$groups"

begin campaign
timeout --kill-after=30 "$group_seconds_max" "$binaries/relay-campaign" "${campaign[@]}" 2>&1 | tee -a "$log" || failed=1
ended

# Every decoder of bytes from outside, a moment each: its corpus, and on from there (docs/fuzzing.md).
begin fuzzers
if wait "$fuzzers"; then
  scripts/fuzz-decoders.py .build-fuzz --runs "$fuzz_runs" --seed "$fuzz_seed" --seconds 120 2>&1 | tee -a "$log" ||
    failed=1
else
  tee -a "$log" <"$folder/fuzzers"
  failed=1
fi
ended

# The package, of the program as it is built here (docs/deploy.md).
begin package
if (($(id -u) == 0)); then
  { scripts/link-static.py "$build" relay "$folder/relay" && scripts/check-package.sh "$folder/relay"; } 2>&1 |
    tee -a "$log" || failed=1
else
  echo 'left out: a tree of its own needs root' | tee -a "$log"
fi
ended

# What failed is said last, where a log that was cut off still has it.
printf '\n== Summary\n'
grep -aE '^== |Test run with|executions, |BROKEN|messages a second: |passed, [0-9]+ failed|check-package: ' "$log" || true
grep -aE '✘ Test .* recorded an issue|error: ' "$log" | cut -c 1-600 | tail -n 30 || true
printf '\n== Where the time went\n'
sort -rn "$folder/seconds"
((failed == 0)) && echo 'All tests passed.' || echo 'Tests failed.'
exit "$failed"
