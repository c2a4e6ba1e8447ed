// The bodies of `PUT /v1/federation/probe`, an addition of ours to reference 1.13.2 (docs/federation-wire.md,
// "Probes").

import RelayCore

/// Asks for the probe account, and empties its mailbox of what came from the asking relay.
struct ProbeRequest: Sendable, Equatable {
  /// Whether the way back is to be walked too.
  let runs: Bool

  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("run")
    writer.boolean(runs)
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> ProbeRequest {
    let runs = try JSONReader.property("run", of: json) { reader throws(JSONError) in try reader.boolean() }
    return ProbeRequest(runs: runs ?? false)
  }
}

struct ProbeAnswer: Sendable, Equatable {
  let account: AccountNumber
  /// The senders' times of the messages that were there; at most `receivedMax` are read.
  let received: [Timestamp]
  /// nil when the way back was not asked for.
  let steps: [ProbeResult]?

  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("account")
    writer.string(account.e164)
    writer.key("received")
    writer.beginArray()
    for time in received.suffix(Self.receivedMax) { writer.integer(time.millis) }
    writer.endArray()
    if let steps {
      writer.key("steps")
      writer.beginArray()
      for step in steps { Self.write(step, to: &writer) }
      writer.endArray()
    }
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> ProbeAnswer {
    var reader = JSONReader(json)
    var account: AccountNumber?
    var received: [Timestamp] = []
    var steps: [ProbeResult]?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "account") {
        account = try reader.string().flatMap { AccountNumber(e164: $0) }
      } else if reader.matches(key, "received") {
        try reader.beginArray()
        while try reader.nextElement() {
          guard received.count < receivedMax, let time = try reader.integer() else { throw .tooLarge }
          received.append(Timestamp(millis: time))
        }
      } else if reader.matches(key, "steps") {
        steps = try decodeSteps(&reader)
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let account else { throw .wrongShape }
    return ProbeAnswer(account: account, received: received, steps: steps)
  }

  private static func write(_ result: ProbeResult, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.key("step")
    writer.string(result.step.rawValue)
    writer.key("outcome")
    writer.string(result.outcome.rawValue)
    writer.key("text")
    writer.string(result.text)
    writer.key("remedy")
    writer.string(result.remedy)
    writer.key("milliseconds")
    writer.integer(Int64(result.duration / .milliseconds(1)))
    writer.endObject()
  }

  /// Steps that only a later relay knows are left out.
  @_lifetime(reader: copy reader)
  private static func decodeSteps(_ reader: inout JSONReader) throws(JSONError) -> [ProbeResult]? {
    if try reader.readNull() { return nil }
    var steps: [ProbeResult] = []
    try reader.beginArray()
    while try reader.nextElement() {
      guard steps.count < stepsMax else { throw .tooLarge }
      if let step = try decodeStep(&reader) { steps.append(step) }
    }
    return steps
  }

  @_lifetime(reader: copy reader)
  private static func decodeStep(_ reader: inout JSONReader) throws(JSONError) -> ProbeResult? {
    var (step, outcome): (PeerProbe.Step?, ProbeResult.Outcome?)
    var (text, remedy): (String?, String?)
    var millis: Int64 = 0
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "step") {
        step = try reader.string().flatMap { PeerProbe.Step(rawValue: $0) }
      } else if reader.matches(key, "outcome") {
        outcome = try reader.string().flatMap { ProbeResult.Outcome(rawValue: $0) }
      } else if reader.matches(key, "text") {
        text = try reader.string()
      } else if reader.matches(key, "remedy") {
        remedy = try reader.string()
      } else if reader.matches(key, "milliseconds") {
        millis = try reader.integer() ?? 0
      } else {
        try reader.skip()
      }
    }
    guard let step, let outcome else { return nil }
    let finding = ProbeFinding(
      outcome: outcome, text: printable(text ?? ""), remedy: remedy.map { printable($0) })
    return ProbeResult(step: step, isBack: true, finding, duration: .milliseconds(min(max(millis, 0), 3_600_000)))
  }

  /// Another operator's words, fit for a terminal.
  private static func printable(_ text: String) -> String {
    String(
      decoding: text.utf8.prefix(textBytesMax).map { (0x20..<0x7F).contains($0) ? $0 : UInt8(ascii: "?") },
      as: UTF8.self)
  }

  private static let receivedMax = 1000
  private static let stepsMax = 50
  private static let textBytesMax = 500
}
