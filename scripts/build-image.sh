#!/usr/bin/env bash
# Makes an OCI image of a built `relay` without a container engine: a Debian tree with its package, packed by umoci.
#
# Usage: scripts/build-image.sh RELAY FOLDER       as root
#   RELAY    the executable; `make image` takes the release build
#   FOLDER   the OCI layout, new; its tag is the version
# DEBIAN_TREE takes a fresh Debian tree instead of making one, RELAY_PACKAGE the package instead of building it.
# `skopeo copy oci:FOLDER:VERSION docker://REGISTRY/relay:VERSION` brings it to a registry.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() {
  printf 'build-image: %s\n' "$*" >&2
  exit 1
}

[ $# -eq 2 ] || die "say which executable, and where the image goes"
[ -x "$1" ] || die "$1 is no executable: \`make release\` builds one"
[ ! -e "$2" ] || die "$2 is there already: remove it, or give another folder"
[ "$(id -u)" -eq 0 ] || die "a Debian tree needs root"
for tool in debootstrap umoci; do
  command -v "$tool" >/dev/null || die "$tool is missing: run scripts/install-dependencies.sh"
done
executable=$(readlink -f "$1")
work=$(mktemp -d)
trap 'umount "$work/tree/proc" 2>/dev/null || true; rm -rf "$work"' EXIT
tree=$work/tree

package=${RELAY_PACKAGE:-$("$root/scripts/build-package.sh" "$executable" "$work/package")}
if [ -n "${DEBIAN_TREE:-}" ]; then
  cp -a "$DEBIAN_TREE" "$tree"
else
  debootstrap --variant=minbase "${DEBIAN_SUITE:-bookworm}" "$tree" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    die "debootstrap failed: see above"
  }
fi
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
  [ ! -e "$file" ] || cp "$file" "$tree$file"
done
cp /etc/resolv.conf "$tree/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
chmod 755 "$tree/usr/sbin/policy-rc.d"
mount -t proc proc "$tree/proc"
cp "$package" "$tree/tmp/relay.deb"
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$tree" "$@"; }
{ inside apt-get -qq update && inside apt-get -qq install -y --no-install-recommends ca-certificates /tmp/relay.deb; } >"$work/log" 2>&1 || {
  tail -n 20 "$work/log" >&2
  die "the package cannot be installed: see above"
}
umount "$tree/proc"
# What a container has no use for, and what would make each image another one.
rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/* "$tree"/var/log/* "$tree"/tmp/* "$tree"/usr/share/doc/* \
  "$tree"/usr/share/man/* "$tree"/usr/share/locale/* "$tree"/etc/resolv.conf "$tree"/etc/hostname \
  "$tree"/usr/sbin/policy-rc.d "$tree"/etc/machine-id
version=$("$executable" --version | awk '{ print $NF }')
user=$(inside id -u relay)

umoci init --layout "$2"
umoci new --image "$2:$version"
umoci insert --image "$2:$version" "$tree" /
umoci config --image "$2:$version" --config.user "$user" --config.entrypoint /usr/bin/relay \
  --config.cmd serve --config.cmd --config --config.cmd /etc/relay/relay.yaml \
  --config.workingdir /var/lib/relay --config.volume /var/lib/relay \
  --config.exposedports 8080/tcp --config.exposedports 8081/tcp --config.exposedports 8443/tcp \
  --config.stopsignal SIGTERM --config.label org.opencontainers.image.title=relay \
  --config.label "org.opencontainers.image.version=$version"
umoci gc --layout "$2"
printf '%s:%s\n' "$2" "$version"
