// The fuzzers of `make fuzz-decoders`: one program of libFuzzer's, one decoder of bytes from outside in each run
// (docs/fuzzing.md). scripts/build-fuzzer.py makes the program beside the debug build.

import Glibc

/// A decoder, as it is fuzzed: it must come to an end on any bytes, and what it says must agree with itself.
struct FuzzedDecoder: Sendable {
  let name: String
  let run: @Sendable ([UInt8]) -> Void

  /// By their names; each has a folder of this name in Corpora.
  static let all: [FuzzedDecoder] = [
    FuzzedDecoder(name: "batch", run: fuzzBatch),
    FuzzedDecoder(name: "certificates", run: fuzzCertificates),
    FuzzedDecoder(name: "client-bodies", run: fuzzClientBodies),
    FuzzedDecoder(name: "form", run: fuzzForm),
    FuzzedDecoder(name: "http", run: fuzzHTTP),
    FuzzedDecoder(name: "invitations", run: fuzzInvitations),
    FuzzedDecoder(name: "json", run: fuzzJSON),
    FuzzedDecoder(name: "key-batch", run: fuzzKeyBatch),
    FuzzedDecoder(name: "ledger", run: fuzzLedger),
    FuzzedDecoder(name: "notify", run: fuzzNotify),
    FuzzedDecoder(name: "parts", run: fuzzParts),
    FuzzedDecoder(name: "peer-bodies", run: fuzzPeerBodies),
    FuzzedDecoder(name: "postgres", run: fuzzPostgres),
    FuzzedDecoder(name: "protobuf", run: fuzzProtobuf),
    FuzzedDecoder(name: "provider-answers", run: fuzzProviderAnswers),
    FuzzedDecoder(name: "redis", run: fuzzRedis),
    FuzzedDecoder(name: "snapshot", run: fuzzSnapshot),
    FuzzedDecoder(name: "soap", run: fuzzSOAP),
    FuzzedDecoder(name: "websocket", run: fuzzWebSocket),
    FuzzedDecoder(name: "words", run: fuzzWords),
    FuzzedDecoder(name: "yaml", run: fuzzYAML),
  ]

  /// The one that the environment names; without a name, or with an unknown one, all names are printed.
  static let chosen: FuzzedDecoder = {
    let name = getenv("RELAY_FUZZ_DECODER").map { String(cString: $0) } ?? ""
    guard let decoder = all.first(where: { $0.name == name }) else {
      for decoder in all { print(decoder.name) }
      exit(name == "list" ? 0 : 2)
    }
    return decoder
  }()
}

/// Called by libFuzzer before anything else.
@_cdecl("LLVMFuzzerInitialize")
public func fuzzerInitialize(_ count: UnsafeMutableRawPointer?, _ arguments: UnsafeMutableRawPointer?) -> CInt {
  _ = FuzzedDecoder.chosen
  return 0
}

/// Called by libFuzzer with each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzerTestOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  // A copy of exactly this length: the address sanitizer sees a read behind its end.
  FuzzedDecoder.chosen.run(Array(UnsafeBufferPointer(start: start, count: count)))
  return 0
}

/// A promise that a decoder has broken: ends the run, and libFuzzer keeps the input.
func demand(_ holds: @autoclosure () -> Bool, _ promise: StaticString, line: UInt = #line) {
  guard holds() else { fatalError("\(FuzzedDecoder.chosen.name): \(promise) (line \(line))") }
}

extension [UInt8] {
  /// The first byte, by which an input says which of several decoders it is for, and the rest.
  var split: (selector: Int, rest: [UInt8]) { (Int(first ?? 0), Array(dropFirst())) }

  /// As text, in which whatever is no UTF-8 was replaced.
  var text: String { String(decoding: self, as: UTF8.self) }
}
