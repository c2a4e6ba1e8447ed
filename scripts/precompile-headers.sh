#!/usr/bin/env bash
# Compiles the headers of C++'s standard library once, and prints the options with which C++ is built from them.
#
# Relay is built with two BoringSSLs (swift-nio-ssl and swift-crypto), a third of a first build. Their 526 sources of C++
# read the same headers, which is a third of that. Exceptions and type information are off, as in BoringSSL's own build.
# Prints only the latter where the former cannot be done: the build is slower then, and else the same.
#
# Usage: scripts/precompile-headers.sh FOLDER
# SWIFT names the compiler; clang is the one beside it.
set -euo pipefail

folder=$(realpath -m "$1")
header=$folder/standard.hpp
compiled=$folder/standard.pch
lean=(-fno-exceptions -fno-rtti)

say() { printf -- '-Xcxx %s ' "$@"; }

# The options which SwiftPM gives a debug build of these packages: others, and clang refuses the file.
clang=$(dirname "$(realpath "$(command -v "${SWIFT:-swift}")")")/clang
options=(-std=c++17 -O0 -fPIC -fblocks -fno-omit-frame-pointer "${lean[@]}")

usable() {
  "$clang" "${options[@]}" -include-pch "$compiled" -x c++ -fsyntax-only /dev/null 2>/dev/null
}

# prepare: a file that is still good stays, or all that was built from it would be built again.
prepare() {
  usable && return
  mkdir -p "$folder"
  printf '#include <%s>\n' algorithm array atomic functional initializer_list memory optional string string_view utility \
    vector >"$header"
  "$clang" "${options[@]}" -x c++-header "$header" -o "$compiled" 2>/dev/null && usable
}

say "${lean[@]}"
# What is printed becomes words: a folder with a space in its name would be two.
if [[ -x $clang && $folder != *[[:space:]]* ]] && prepare; then say -include-pch "$compiled"; fi
