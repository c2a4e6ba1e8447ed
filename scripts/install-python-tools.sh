#!/usr/bin/env bash
# Installs what only tests need from PyPI into `.build/python`, where it is missing or of another version: moto_server
# speaks S3's protocol, schemathesis makes requests of docs/openapi.yaml, axe-core looks at the operator console,
# kubernetes-validate at deploy/kubernetes.
#
# Quiet, and safe to run twice at once: the second run waits for the first. A run that was cut short is begun anew.
set -euo pipefail

packages=(
  "moto[server]==5.2.5"
  schemathesis==4.32.5
  kubernetes-validate==1.37.0
)
# For a file that it carries, not for what it needs to run by itself.
alone=(axe-playwright-python==0.1.8)

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/.build/python
# Written last: it stands for everything that it names.
stamp=$folder/installed

die() {
  printf 'install-python-tools: %s\n' "$*" >&2
  exit 1
}

command -v flock >/dev/null || die "flock is missing: install util-linux"
python3 -c 'import ensurepip, venv' 2>/dev/null || die "python3 with venv is missing: run scripts/install-dependencies.sh"

mkdir -p "$root/.build"
exec 9>"$root/.build/python.lock"
flock 9

# The tools name the interpreter by its path: a tree that was moved needs them anew.
wanted=$(printf '%s\n' "$folder" "$(python3 --version)" "${packages[@]}" "${alone[@]}")
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

printf 'Installing %s\n' "${packages[*]}"
rm -rf "$folder"
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-input "${packages[@]}" ||
  die "PyPI's packages cannot be installed: see above"
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-input --no-deps "${alone[@]}" ||
  die "PyPI's packages cannot be installed: see above"
printf '%s\n' "$wanted" >"$stamp"
