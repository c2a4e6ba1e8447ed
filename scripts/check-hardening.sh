#!/usr/bin/env bash
# Looks whether an executable was built as `make release` promises: check-hardening.sh BINARY
set -euo pipefail

binary=${1:?usage: check-hardening.sh BINARY}
failed=0
check() { # WHAT TEXT PATTERN
  if grep -qE -- "$3" <<<"$2"; then return; fi
  printf 'check-hardening: %s lacks %s\n' "$binary" "$1" >&2
  failed=1
}

command -v readelf >/dev/null || { echo "check-hardening: readelf is missing (binutils)" >&2; exit 1; }
header=$(readelf --wide --file-header "$binary")
segments=$(readelf --wide --program-headers "$binary")
dynamic=$(readelf --wide --dynamic "$binary")
symbols=$(readelf --wide --dyn-syms "$binary")

check "a random place in memory (PIE)" "$header$dynamic" 'DYN .*|FLAGS_1.*PIE'
check "tables that are read-only once it has started (RELRO)" "$segments" 'GNU_RELRO'
check "the binding of all symbols at the start (BIND_NOW)" "$dynamic" 'BIND_NOW|FLAGS_1.*NOW'
check "a stack that cannot be executed" "$segments" 'GNU_STACK +0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ RW '
check "guarded stack frames (stack protector)" "$symbols" '__stack_chk_fail'
[ "$failed" -eq 0 ] || exit 1
printf '%s: PIE, full RELRO, stack not executable, stack protector\n' "$binary"
