#!/usr/bin/env bash
# Installs the package of a built `relay` in a Debian tree of its own, starts it as its unit does, upgrades it, sets it
# up with `relay init`, and purges it. Leaves nothing behind: tree and processes are in namespaces of this script.
#
# Then it makes the OCI image of the same package, takes it apart, and runs what it would run. In the end it boots three
# hosts, installs a relay there as docs/install.md says, and divides one as docs/deploy.md says
# (scripts/check-install.py).
#
# Usage: scripts/check-package.sh RELAY        as root
# CHECK_LINTIAN= leaves lintian out.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
suite=${DEBIAN_SUITE:-bookworm}

die() {
  printf 'check-package: %s\n' "$*" >&2
  exit 1
}
passed=0
ok() {
  passed=$((passed + 1))
  printf 'ok  %s\n' "$*"
}

if [ -z "${RELAY_CHECK_WORK:-}" ]; then
  if [ $# -ne 1 ] || [ ! -x "$1" ]; then die "say which executable: \`make release\` builds one"; fi
  [ "$(id -u)" -eq 0 ] || die "a tree of its own needs root"
  for tool in debootstrap lintian umoci unshare python3 systemd-nspawn openssl; do
    command -v "$tool" >/dev/null || die "$tool is missing: run scripts/install-dependencies.sh"
  done
  RELAY_CHECK_WORK=$(mktemp -d)
  export RELAY_CHECK_WORK
  trap 'rm -rf "$RELAY_CHECK_WORK"' EXIT
  unshare --mount --pid --fork --kill-child --mount-proc "${BASH_SOURCE[0]}" "$(readlink -f "$1")"
  exit
fi

executable=$1
work=$RELAY_CHECK_WORK
# What is installed there need not outlive anything.
mount -t tmpfs -o mode=0755 tmpfs "$work"
tree=$work/tree
mkdir "$tree"

# --- A package, and its next revision: the same program.
export PACKAGE_COMPRESSION=gzip
first=$(PACKAGE_REVISION=1 "$root/scripts/build-package.sh" "$executable" "$work/first")
second=$work/second.deb
dpkg-deb -R "$first" "$work/second"
sed -i 's/^\(Version: .*\)-1$/\1-2/' "$work/second/DEBIAN/control"
dpkg-deb --root-owner-group -Znone -b "$work/second" "$second" >/dev/null
rm -rf "$work/second"
ok "package: $(basename "$first"), $(($(stat -c %s "$first") >> 20)) MiB"
if [ -n "${CHECK_LINTIAN-1}" ]; then
  lintian --allow-root --fail-on error,warning "$first" >"$work/lintian" 2>&1 || {
    cat "$work/lintian" >&2
    die "lintian complains: see above"
  }
  ok "lintian finds no error and no warning"
fi

# --- A tree.
debootstrap --variant=minbase "$suite" "$tree" >"$work/debootstrap" 2>&1 || {
  tail -n 20 "$work/debootstrap" >&2
  die "debootstrap failed: see above"
}
cp -a "$tree" "$work/fresh"
# Devices of the host: not every host lets a tree have its own.
devices=(null zero random urandom)
open_tree() {
  for device in "${devices[@]}"; do
    if [ ! -c "$tree/dev/$device" ] || ! : 2>/dev/null >"$tree/dev/$device"; then
      rm -f "$tree/dev/$device"
      : >"$tree/dev/$device"
      mount --bind "/dev/$device" "$tree/dev/$device"
    fi
  done
  mount -t proc proc "$tree/proc"
  printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
  chmod 755 "$tree/usr/sbin/policy-rc.d"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources /etc/resolv.conf; do
    [ ! -e "$file" ] || cp "$file" "$tree$file"
  done
}
close_tree() {
  umount "$tree/proc"
  for device in "${devices[@]}"; do
    ! mountpoint --quiet "$tree/dev/$device" || umount "$tree/dev/$device"
  done
  rm "$tree/usr/sbin/policy-rc.d"
}
inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 chroot "$tree" "$@"
}
apt() {
  inside apt-get -qq -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-unsafe-io "$@" \
    >"$work/apt" 2>&1 || {
    tail -n 30 "$work/apt" >&2
    die "apt-get $1 failed: see above"
  }
}
open_tree
apt update

# --- Installed.
cp "$first" "$tree/tmp/first.deb"
cp "$second" "$tree/tmp/second.deb"
apt install -y --no-install-recommends /tmp/first.deb
inside relay --version | grep "^relay " >/dev/null || die "the program does not start"
[ "$(inside stat -c '%U %a' /var/lib/relay)" = "relay 700" ] || die "/var/lib/relay is not relay's alone"
[ "$(inside stat -c '%U %a' /etc/relay/credentials)" = "root 700" ] || die "/etc/relay/credentials is not root's alone"
[ "$(inside id -un relay)" = relay ] || die "there is no user relay"
for file in /usr/share/man/man1/relay-serve.1.gz /usr/share/bash-completion/completions/relay \
  /usr/share/doc/relay/configuration.md.gz /lib/systemd/system/relay.service; do
  [ -e "$tree$file" ] || die "$file is missing"
done
[ -L "$tree/etc/systemd/system/multi-user.target.wants/relay.service" ] || die "the service is not enabled"
inside relay check --config /etc/relay/relay.yaml >/dev/null || die "the default configuration is faulty"
level=$(systemd-analyze security --offline=true --threshold=20 "$tree/lib/systemd/system/relay.service" |
  sed -n 's/^.*Overall exposure level for relay.service: \([0-9.]*\).*$/\1/p')
awk -v level="$level" 'BEGIN { exit !(level > 0 && level <= 2.0) }' || die "systemd-analyze security: $level, more than 2.0"
ok "installed: user, folders, unit (exposure $level), manual pages, completions, a configuration that holds"

# --- Started as the unit does, asked, stopped. In a network of its own: its ports are free.
start='
import http.client, json, os, signal, socket, subprocess, sys, time
tree, what = sys.argv[1], sys.argv[2:]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
words = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
words.bind(tree + "/run/notify"); os.chmod(tree + "/run/notify", 0o777); words.settimeout(60)
unit = open(tree + "/lib/systemd/system/relay.service").read().splitlines()
command = next(line[len("ExecStart="):] for line in unit if line.startswith("ExecStart=")).split()
relay = subprocess.Popen(
  ["chroot", "--userspec=relay:relay", tree] + command,
  env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": "/run/notify"})
def ask(method, path, body=None, headers={}, port=8080):
  link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
  link.request(method, path, body, headers); answer = link.getresponse()
  return answer.status, answer.read().decode()
try:
  told = ""
  while "READY=1" not in told:
    if relay.poll() is not None: raise SystemExit("relay serve ended")
    told += words.recv(4096).decode() + "\n"
  for step in what:
    if step == "listens":
      if ask("GET", "/readyz", port=8081)[0] != 200: raise SystemExit("it is not ready")
      if ask("GET", "/v1/keys/+14155550100")[0] != 401: raise SystemExit("it does not serve clients")
finally:
  relay.send_signal(signal.SIGTERM)
  code = relay.wait(60); os.unlink(tree + "/run/notify")
if code != 0: raise SystemExit(f"it ended with {code}")
'
serves() { unshare --net python3 -c "$start" "$tree" listens 2>"$work/serve" || {
  tail -n 20 "$work/serve" >&2
  die "the service does not run: see above"
}; }
serves
[ -e "$tree/var/lib/relay/relay.sqlite" ] || die "it keeps nothing in /var/lib/relay"
[ "$(inside stat -c %U /var/lib/relay/relay.sqlite)" = relay ] || die "its files are not relay's"
ok "started by its ExecStart as the user relay: told systemd that it is ready, served, ended with 0"

# --- Upgraded, with a configuration that somebody has changed.
printf 'name: changed\n' >>"$tree/etc/relay/relay.yaml"
apt install -y --no-install-recommends /tmp/second.deb
# shellcheck disable=SC2016 # dpkg-query fills in the version
[ "$(inside dpkg-query -W -f '${Version}' relay | sed 's/.*-//')" = 2 ] || die "it is not upgraded"
grep -q '^name: changed$' "$tree/etc/relay/relay.yaml" || die "the upgrade has changed the configuration"
serves
ok "upgraded: the configuration stays as it was changed, the store is used on"

# --- Set up. The default, as it came, gives way; what somebody has changed does not.
if inside relay init --yes --name alpha --host relay.alpha.example --no-peers >"$work/init" 2>&1; then
  die "relay init wrote over a configuration that was changed"
fi
rm -rf "$tree/var/lib/relay/relay.sqlite"*
cp "$tree/usr/share/relay/relay.yaml" "$tree/etc/relay/relay.yaml"
inside relay init --yes --name alpha --host relay.alpha.example --no-peers --codes webhook \
  --webhook-url https://codes.alpha.example/ >"$work/init" 2>&1 || {
  cat "$work/init" >&2
  die "relay init failed: see above"
}
grep -q 'systemctl restart relay' "$work/init" || die "relay init does not name the package's unit"
[ "$(inside stat -c %U /etc/relay/credentials)" = root ] || die "relay init gave the folder of secrets away"
serves
ok "set up by relay init in place of the default, and served by the package's unit"

# --- Purged.
apt purge -y relay
left=$(inside find / -xdev -name '*relay*' -not -path '/proc/*' -not -path '/tmp/*' -not -path '/var/log/*' \
  -not -path '/var/cache/*' -not -path '/sys/*' | head)
[ -z "$left" ] || die "purged, it leaves behind: $left"
ok "purged: nothing is left but its user"

# --- The image of the same package.
DEBIAN_TREE=$work/fresh RELAY_PACKAGE=$first "$root/scripts/build-image.sh" "$executable" "$work/image" >"$work/tag" 2>"$work/log" || {
  tail -n 20 "$work/log" >&2
  die "no image can be made: see above"
}
umoci unpack --image "$(cat "$work/tag")" "$work/bundle" 2>"$work/log" || die "umoci cannot take the image apart"
image='
import http.client, json, os, signal, subprocess, sys, time
bundle = sys.argv[1]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
process = json.load(open(bundle + "/config.json"))["process"]
root = bundle + "/rootfs"
subprocess.run(["mount", "-t", "proc", "proc", root + "/proc"], check=True)
user = process["user"]
if user["uid"] == 0: raise SystemExit("it runs as root")
relay = subprocess.Popen(
  ["chroot", "--userspec=%d:%d" % (user["uid"], user["gid"]), root] + process["args"],
  env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
try:
  for _ in range(600):
    if relay.poll() is not None: raise SystemExit("it ended")
    try:
      link = http.client.HTTPConnection("127.0.0.1", 8081, timeout=5)
      link.request("GET", "/readyz")
      if link.getresponse().status == 200: break
    except OSError: pass
    time.sleep(0.1)
  else: raise SystemExit("it is not ready")
finally:
  relay.send_signal(signal.SIGTERM)
  code = relay.wait(60)
if code != 0: raise SystemExit(f"it ended with {code}")
'
unshare --net --mount python3 -c "$image" "$work/bundle" 2>"$work/serve" || {
  tail -n 20 "$work/serve" >&2
  die "the image does not run: see above"
}
ok "image: $(($(du -sb "$work/image" | cut -f 1) >> 20)) MiB, runs its command as its user, ready, ended with 0"

# --- The page on installing, on hosts that systemd boots. They find what they install in apt's cache: nothing is on
# their network but the client.
close_tree
tree=$work/fresh
open_tree
cp "$first" "$tree/tmp/relay.deb"
apt update
apt install -y --no-install-recommends systemd systemd-sysv
# What the page installs, and what apt recommends besides.
read -ra listed <<<"$(sed -n 's/^apt install -y \([^.].*\)$/\1/p' "$root/docs/install.md")"
apt install -y --download-only /tmp/relay.deb
apt install -y --download-only "${listed[@]}"
# And the stores of several processes.
apt install -y --download-only postgresql redis-server
rm "$tree/tmp/relay.deb"
close_tree
unshare --net "$root/scripts/check-install.py" "$tree" "$first" "$executable"
passed=$((passed + 3))
printf '%s passed, 0 failed\n' "$passed"
