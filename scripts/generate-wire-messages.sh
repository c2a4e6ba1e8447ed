#!/usr/bin/env bash
# Generates Sources/WireMessages/*.pb.swift anew from the .proto files beside them. Needed only when one of those changes.
#
# The plug-in is built from the very package that the product is linked with.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v protoc >/dev/null || {
  printf 'protoc is missing: install the package protobuf-compiler\n' >&2
  exit 1
}
swift package resolve
swift build --package-path .build/checkouts/swift-protobuf --scratch-path .build-protobuf --product protoc-gen-swift
plugin=$(swift build --package-path .build/checkouts/swift-protobuf --scratch-path .build-protobuf --show-bin-path)
cd Sources/WireMessages
protoc --plugin="$plugin/protoc-gen-swift" --swift_out=. --swift_opt=Visibility=Package \
  --swift_opt=UseAccessLevelOnImports=true ./*.proto
