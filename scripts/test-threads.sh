#!/usr/bin/env bash
# Runs the unit and store tests under the thread sanitizer, in a build of its own (docs/reliability.md, "Threads").
#
# The sanitizer sees what this package and its Swift and C sources compile to. Swift's own libraries are not instrumented:
# Tests/Threads/SwiftRuntime.c tells it how they order threads. What is reported all the same and is no race stands in
# Tests/Threads/suppressions.txt, with its reason.
#
# Usage: scripts/test-threads.sh [--filter REGULAR-EXPRESSION]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

swift=${SWIFT:-swift}
build=.build-threads
# One after the other: an instrumented test takes several times as long.
groups=(
  '^(RelayWork|RelayCore|RelayConfiguration|Operations|Directory|CampaignModel)Tests\.'
  '^StorageTests\.'
)
if [[ ${1:-} == --filter ]]; then
  [[ -n ${2:-} ]] || { echo 'test-threads: --filter needs a regular expression over "Target.Suite/test"' >&2; exit 2; }
  groups=("$2")
fi

mkdir -p "$build"
runtime=$PWD/$build/SwiftRuntime.o
clang -c -fPIC -O1 -Wall -Wextra -Werror -o "$runtime" Tests/Threads/SwiftRuntime.c
SWIFT_DETERMINISTIC_HASHING=1 "$swift" build --configuration debug --sanitize=thread --scratch-path "$build" --build-tests \
  -Xlinker "$runtime"
tests=$(find "$("$swift" build --configuration debug --scratch-path "$build" --show-bin-path)" -maxdepth 1 -name '*.xctest')

# Every process of a test that is instrumented writes what it finds into a file of its own.
reports=$(mktemp -d)
chmod 755 "$reports"
trap 'rm -rf "$reports"' EXIT
export TSAN_OPTIONS="suppressions=$PWD/Tests/Threads/suppressions.txt log_path=$reports/report exitcode=0 history_size=4"
failed=0
for group in "${groups[@]}"; do
  printf '\n== %s\n' "$group"
  "$tests" --testing-library swift-testing --filter "$group" || failed=1
done
found=$(cat "$reports"/* 2>/dev/null | grep -c '^SUMMARY: ThreadSanitizer' || true)
if ((found > 0)); then
  cat "$reports"/*
  failed=1
fi
printf '\n%s reports of the thread sanitizer.\n' "$found"
((failed == 0)) && echo 'All tests passed.' || echo 'Tests failed.'
exit "$failed"
