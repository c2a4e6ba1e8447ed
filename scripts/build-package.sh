#!/usr/bin/env bash
# Makes a Debian package of a built `relay`: the program without symbols, its unit, user, folders, manual pages,
# completions, documents and a default configuration.
#
# Usage: scripts/build-package.sh RELAY FOLDER
#   RELAY    the executable; `make package` takes the release build
#   FOLDER   where the package is left
# PACKAGE_VERSION, PACKAGE_REVISION, PACKAGE_MAINTAINER and PACKAGE_COMPRESSION (xz, gzip) change what they name.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() {
  printf 'build-package: %s\n' "$*" >&2
  exit 1
}

[ $# -eq 2 ] || die "say which executable, and where the package goes"
[ -x "$1" ] || die "$1 is no executable: \`make release\` builds one"
for tool in dh dpkg-buildpackage python3; do
  command -v "$tool" >/dev/null || die "$tool is missing: run scripts/install-dependencies.sh"
done
executable=$(readlink -f "$1")
mkdir -p "$2"
target=$(cd "$2" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/relay
mkdir "$tree"
cp -r "$root/deploy/debian" "$tree/debian"
cp "$executable" "$tree/relay"
mkdir "$tree/docs" "$tree/examples"
cp "$root"/docs/*.md "$tree/docs/"
cp -r "$root/deploy/haproxy" "$root/deploy/nginx" "$root/deploy/prometheus" "$root/deploy/grafana" "$tree/examples/"
mv "$tree/debian/relay.yaml" "$tree/relay.yaml"
# By this copy `relay init` knows that nobody has changed the one in /etc.
mkdir -p "$tree/share-relay"
cp "$tree/relay.yaml" "$tree/share-relay/relay.yaml"

# The same package from the same commit: its date is the commit's.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
version=${PACKAGE_VERSION:-$("$executable" --version | awk '{ print $NF }')}
architecture=$(dpkg --print-architecture)
maintainer=${PACKAGE_MAINTAINER:-Relay maintainers <maintainers@relay.invalid>}
sed -i -e "s/@maintainer@/$maintainer/" -e "s/@architecture@/$architecture/" "$tree/debian/control"
cat >"$tree/debian/changelog" <<END
relay ($version-${PACKAGE_REVISION:-1}) unstable; urgency=medium

  * /usr/share/doc/relay/CHANGELOG.md tells what has changed.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
cp "$root/CHANGELOG.md" "$tree/docs/"
"$executable" init --print-unit >"$tree/debian/relay.service"
"$root/scripts/make-man-pages.py" "$executable" "$tree/made"
mv "$tree/made/man/man1" "$tree/man1"
rmdir "$tree/made/man"
mv "$tree/made" "$tree/share"
mv "$tree/share-relay" "$tree/share/relay"

# -d: what it is built with is there already, in the executable.
(cd "$tree" && dpkg-buildpackage -b -d -us -uc -rfakeroot >"$work/log" 2>&1) || {
  cat "$work/log" >&2
  die "dpkg-buildpackage failed: see above"
}
cp "$work"/relay_*.deb "$target/"
printf '%s\n' "$target"/relay_"$version"-*_"$architecture".deb
