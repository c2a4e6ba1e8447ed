import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// The examples of the client library's documentation compile, and do what is said of them.
@Suite(.tags(.processes), .ownRelay) struct ClientDocumentationTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  private let examples = ClientDocumentation()

  private func register() async throws -> (device: RegisteredDevice, number: PhoneNumber) {
    let number = try #require(PhoneNumber(TestDevice.freshNumber()))
    return (try await examples.register(number, at: try suiteRelay().relay.url), number)
  }

  @Test func `a message is sent and fetched`() async throws {
    let (sender, recipient) = (try await register(), try await register())
    try await examples.send("Hello.", from: sender.device, to: recipient.number)
    #expect(try await examples.receive(as: recipient.device) == ["Hello."])
    #expect(try await examples.receive(as: recipient.device) == [])
    try await eventually("the sender has the receipt") {
      try await !sender.device.client.fetchMessages().messages.isEmpty
    }
    #expect(try await examples.receive(as: sender.device) == [], "a receipt is no text")
    #expect(try await sender.device.client.fetchMessages().messages.isEmpty)
  }

  @Test func `messages come live, and the one that was not stored stays`() async throws {
    let (sender, recipient) = (try await register(), try await register())
    for text in ["stored", "not stored"] { try await examples.send(text, from: sender.device, to: recipient.number) }
    var taken = 0
    await #expect(throws: CancellationError.self) {
      try await examples.receive(as: recipient.device) { _ in
        taken += 1
        if taken == 2 { throw CancellationError() }
      }
    }
    try await eventually("one message is left") {
      try await recipient.device.client.fetchMessages().messages.count == 1
    }
    #expect(try await examples.receive(as: recipient.device) == ["not stored"])
  }

  @Test func `the documentation shows this code`() throws {
    let tests = Self.root.appending(path: "Tests/RelayTests/ClientDocumentation.swift")
    let code = Self.trimmed(try String(contentsOf: tests, encoding: .utf8))
    let folder = Self.root.appending(path: "Sources/RelayClient/RelayClient.docc")
    var examples = 0
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where name.hasSuffix(".md") {
      let page = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
      for block in page.components(separatedBy: "```swift\n").dropFirst() {
        let example = Self.trimmed(try #require(block.components(separatedBy: "```").first))
        #expect(code.contains(example), "\(name): \(example)")
        examples += 1
      }
    }
    #expect(examples == 4)
  }

  /// Without indentation, which differs.
  private static func trimmed(_ text: String) -> String {
    text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.joined(separator: "\n")
  }
}
