#!/usr/bin/env bash
# Sends generated requests, right and wrong ones, to every operation of docs/openapi.yaml and checks the answers: no 5xx,
# and no status, header or body that the file does not know. Ends with 0 only if all is well.
#
#   scripts/fuzz-api.sh URL [--account NUMBER:PASSWORD] [--spec FILE] [--seconds N] [--seed N] [--report FILE]
#
# URL is a relay with development.enabled and with limits that do not get in the way: the account is made there first,
# unless one is given. The tools are those of scripts/install-python-tools.sh.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
tool="${SCHEMATHESIS:-$root/.build/python/bin/schemathesis}"

die() {
  printf 'fuzz-api: %s\n' "$*" >&2
  exit 1
}

[ $# -ge 1 ] || die "usage: scripts/fuzz-api.sh URL [--account NUMBER:PASSWORD] [--spec FILE] [--seconds N] [--seed N] [--report FILE]"
url="${1%/}"
shift
account="" spec="$root/docs/openapi.yaml" seconds=60 seed="" report=""
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || die "$1 needs a value"
  case "$1" in
    --account) account="$2" ;;
    --spec) spec="$2" ;;
    --seconds) seconds="$2" ;;
    --seed) seed="$2" ;;
    --report) report="$2" ;;
    *) die "unknown option $1" ;;
  esac
  shift 2
done
[ -x "$tool" ] || die "$tool is missing: run scripts/install-python-tools.sh"

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

# The number that the file takes for its examples: what the examples address exists, and has keys and a device.
number=+15550000001
if [ -z "$account" ]; then
  password="fuzz-$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')"
  account="$number:$password"
  code="$(curl --silent --show-error --fail --max-time 10 "$url/v1/accounts/dev/code/$number")" ||
    die "$url gave no code: is it a relay with development.enabled=true?"
  ask() {
    curl --silent --show-error --fail --max-time 10 --user "$account" --request PUT \
      --header 'Content-Type: application/json' --data "$2" "$url$1" >/dev/null || die "PUT $1 failed"
  }
  ask "/v1/accounts/code/${code//-/}" '{"signalingKey":"c2lnbmFsaW5n","fetchesMessages":true}'
  ask /v1/keys '{"lastResortKey":{"keyId":9,"publicKey":"BWM","identityKey":"BWE"},"keys":[]}'
fi

options=(
  --url "$url"
  --auth "$account"
  --checks "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,unsupported_method,allow_header_conformance,ignored_auth"
  --phases "examples,coverage,fuzzing"
  --max-examples 60
  --max-time "$seconds"
  --request-timeout 10
  --continue-on-failure
  --max-failures 20
  --suppress-health-check all
  --generation-database none
  --output-sanitize true
  --no-color
  --warnings off
)
[ -z "$seed" ] || options+=(--seed "$seed")
[ -z "$report" ] || options+=(--report-ndjson-path "$report")

cd "$folder"
# Twice the time and a minute: whoever waits for this must not wait for ever.
timeout --kill-after=10 $((seconds * 2 + 60)) "$tool" run "${options[@]}" "$spec"
