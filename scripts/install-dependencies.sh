#!/usr/bin/env bash
# Installs what Relay is built with and what its tests and cluster start, where it is missing. Debian and its kin.
#
# The servers that come with the packages are not started: tests and cluster start their own, in folders of their own.
set -euo pipefail

packages=(
  libpq-dev libhiredis-dev libssl-dev libsodium-dev libsqlite3-dev libxml2-dev zlib1g-dev pkg-config # to build
  binutils                                                      # to look at a release build
  postgresql redis-server haproxy                               # to test, and for the cluster
  nginx-light pgbouncer                                         # to test: what stands around relays
  patroni etcd-server                                           # to test: a PostgreSQL that fails over
  python3-venv                                                  # to test: what scripts/install-python-tools.sh installs
  iproute2 libfaketime                                          # to test: hosts with networks and dates of their own
  prometheus                                                    # to test: the alerts of deploy/prometheus
  debhelper fakeroot lintian debootstrap umoci systemd-container # to make and test packages and images
  tmux                                                          # to test: a terminal
  strace                                                        # to test: a process that is killed at each step
  chromium chromium-driver netpbm                               # to test: the operator console
  shellcheck                                                    # to lint the scripts
  openssl curl                                                  # to try things by hand
)

die() {
  printf 'install-dependencies: %s\n' "$*" >&2
  exit 1
}
is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

command -v swift >/dev/null || die "swift is missing: install Swift 6.3 or newer from https://www.swift.org/install"

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  # Elsewhere the packages have other names: go by what is needed to build.
  if command -v pkg-config >/dev/null && pkg-config --exists libpq hiredis openssl libsodium sqlite3 libxml-2.0; then exit 0; fi
  die "this is not Debian: install the headers of libpq, hiredis, OpenSSL, libsodium, SQLite and libxml2 with pkg-config, and PostgreSQL, \
Redis and HAProxy, by your system's means"
fi

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0
printf 'Installing %s\n' "${missing[*]}"

privileged=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "these packages are missing, and neither root nor sudo is at hand: ${missing[*]}"
  privileged=(sudo)
fi

# Debian starts a server when its package is installed unless this file says no. It is ours for that moment only; an
# administrator's own policy stays as it is.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${privileged[@]}" tee "$policy" >/dev/null
  "${privileged[@]}" chmod 755 "$policy"
  # shellcheck disable=SC2064 # as they are now
  trap "${privileged[*]} rm -f $policy" EXIT
fi
"${privileged[@]}" apt-get update -q
"${privileged[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
