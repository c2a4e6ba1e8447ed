#!/usr/bin/env bash
# Builds the documentation of the client library, RelayClient, as a DocC archive in .build/docs.
#
# The symbols come from the debug build, which is made first. Fails at any warning, such as a link to a symbol that is
# not there, and at a public symbol without documentation.
#
# Usage: scripts/build-docs.sh SWIFT-BUILD-OPTION...
# SWIFT names the compiler; docc is the one beside it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

swift=${SWIFT:-swift}
catalogue=Sources/RelayClient/RelayClient.docc
output=.build/docs

die() {
  printf 'build-docs: %s\n' "$*" >&2
  exit 1
}

# target KEY...: what the compiler says of itself.
target() {
  "$swift" -print-target-info |
    python3 -c 'import functools, json, sys; print(functools.reduce(lambda at, key: at[key], sys.argv[1:], json.load(sys.stdin)))' "$@"
}

triple=$(target target unversionedTriple)
docc=$(target paths runtimeResourcePath)/../../bin/docc
[ -x "$docc" ] || die "the toolchain of $swift has no docc"

SWIFT_DETERMINISTIC_HASHING=1 "$swift" build "$@" --target RelayClient
binaries=$("$swift" build "$@" --show-bin-path)

# Modules of Swift load those of C that they were built with, by maps: written by hand, or made by SwiftPM.
maps=()
for map in Sources/*/module.modulemap .build/checkouts/*/Sources/*/include/module.modulemap \
  "$binaries"/*.build/module.modulemap; do
  if [ -f "$map" ]; then maps+=(-Xcc "-fmodule-map-file=$map"); fi
done

graphs=$(mktemp -d)
trap 'rm -rf "$graphs"' EXIT
"$swift" symbolgraph-extract -module-name RelayClient -target "$triple" -I "$binaries/Modules" "${maps[@]}" \
  -module-cache-path "$binaries/ModuleCache" -minimum-access-level public -skip-synthesized-members \
  -output-dir "$graphs"

python3 - "$graphs/RelayClient.symbols.json" <<'EOF' || die "each public symbol needs a docstring"
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    symbols = json.load(file)["symbols"]
bare = sorted(".".join(symbol["pathComponents"]) for symbol in symbols if "docComment" not in symbol)
for name in bare:
    print(f"  {name} has no documentation", file=sys.stderr)
sys.exit(1 if bare or not symbols else 0)
EOF

rm -rf "$output"
"$docc" convert "$catalogue" --additional-symbol-graph-dir "$graphs" --output-path "$output" --warnings-as-errors \
  --fallback-display-name RelayClient --fallback-bundle-identifier relay.RelayClient \
  --fallback-default-module-kind Library

printf 'The documentation of RelayClient is in %s. Its pages need a web server:\n' "$output"
printf '  python3 -m http.server --bind 127.0.0.1 --directory %s 8000\n' "$output"
printf '  http://127.0.0.1:8000/documentation/relayclient/\n'
