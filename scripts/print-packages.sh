#!/bin/sh
# Writes what SwiftPM resolved as Swift, for `relay --version --packages`: print-packages.sh Package.resolved OUTPUT
#
# The build calls it (Plugins/ResolvedPackages). The same input gives the same bytes.
set -eu

resolved=$1
output=$2
[ -f "$resolved" ] || resolved=/dev/null

# SwiftPM writes one key a line; a pin ends with its state.
awk '
  BEGIN {
    print "// Written by scripts/print-packages.sh: what the build was resolved to."
    print "enum ResolvedPackages {"
    print "  static let all: [(name: String, version: String, revision: String)] = ["
  }
  function value(line) { gsub(/^[^:]*: *"|",? *$/, "", line); gsub(/[^A-Za-z0-9._+\/-]/, "", line); return line }
  /"identity" *:/ { name = value($0); version = "unversioned"; revision = "" }
  /"revision" *:/ { revision = value($0) }
  /"(version|branch)" *: *"/ && name != "" { version = value($0) }
  /^    }/ && name != "" { printf "    (\"%s\", \"%s\", \"%s\"),\n", name, version, revision; name = "" }
  END {
    print "  ]"
    print "}"
  }
' "$resolved" >"$output"
