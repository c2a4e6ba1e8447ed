#!/usr/bin/env bash
# Clang for a first build, which SwiftPM calls as CC: the headers of C++ are compiled once.
#
# Relay is built with two BoringSSLs (swift-nio-ssl and swift-crypto). Their 526 sources of C++ were a third of a first
# build. Nearly all of that went into the same headers, which each source reads, and whose templates it instantiates.
# So the headers of each are compiled once, with its own options, and lie beside its objects. Exceptions and type
# information are off, as in BoringSSL's own build, and LLVM does not check what clang hands it. The code is the same.
# A source that cannot be compiled that way is compiled as usual: that is slower.
#
# CLANG names the compiler.
set -euo pipefail

arguments=("$@") options=() source='' object=''
while (($#)); do
  case $1 in
  -c) source=$2 && shift ;;
  -o) object=$2 && shift ;;
  -MT | -MF) shift ;;
  -MD) ;;
  *) options+=("$1") ;;
  esac
  shift
done

package=${source%/Sources/*}
target=${source#"$package"/Sources/}
target=${target%%/*}
case $target/$source in
CNIOBoringSSL/*.cc) headers=(ssl/internal.h crypto/x509/internal.h) ;;
CCryptoBoringSSL/*.cc) headers=(crypto/x509/internal.h) ;;
*) exec "$CLANG" "${arguments[@]}" ;;
esac

lean=(-fno-exceptions -fno-rtti -Xclang -disable-llvm-verifier)
folder=${object%/"$target.build"/*}/$target.build
header=$folder/headers.hpp
compiled=$folder/headers.pch

# What most sources of `target` read.
list_headers() {
  printf '#include <%s>\n' algorithm array atomic functional initializer_list iterator memory optional string \
    string_view tuple utility variant vector "$target.h"
  printf "#include \"$package/Sources/$target/%s\"\n" "${headers[@]}"
}

# A file that is there stays: all that was built from it would be built again.
prepare() {
  [[ -e $compiled ]] && return
  {
    flock 9 || return
    [[ -e $compiled ]] && return
    list_headers >"$header"
    "$CLANG" "${options[@]}" "${lean[@]}" -fpch-instantiate-templates -x c++-header "$header" -o "$compiled.new" &&
      mv "$compiled.new" "$compiled"
  } 9>"$compiled.lock"
}

# It fails too when a header was changed since: then the next source has the headers compiled anew.
if prepare 2>/dev/null; then
  "$CLANG" "${arguments[@]}" "${lean[@]}" -include-pch "$compiled" 2>/dev/null && exit
  rm -f "$compiled"
fi
exec "$CLANG" "${arguments[@]}" "${lean[@]}"
