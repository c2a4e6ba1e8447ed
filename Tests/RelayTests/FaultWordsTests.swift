import ChildProcesses
import Foundation
import Glibc
import RelayHTTP
import TestSupport
import TestTags
import Testing

/// The words to an operator when something below the relay fails: a sentence of ours that names the remedy.
@Suite(.tags(.processes)) struct FaultWordsTests {
  /// Words of calls, types and codes of the libraries below us.
  private static let foreign = [
    "errno", "descriptor:", "NIO", "IOError", "SocketAddressError", "SSLError", "failedToLoad", "The operation",
    "could not be completed", "Optional(", "error:", "..", "\t",
  ]

  private static func open(at host: String) -> [String: String] {
    ["RELAY_CLIENT_HOST": host, "RELAY_ALLOW_INSECURE": "plain-http,development"]
  }

  /// Starts `relay serve`, which has to end with code 1, and looks at the last line of what it says.
  private static func expectRefusal(
    _ settings: [String: String], says parts: [String], names remedy: String,
    prepare: (RelayOperator) async throws -> Void = { _ in }
  ) async throws {
    try await RelayOperator.with { site in
      try await prepare(site)
      let relay = try await site.startServing(settings)
      let exit = await relay.exit()
      #expect(exit == .code(1))
      let log = relay.log()
      guard let line = log.split(separator: "\n").last(where: { $0.hasPrefix("Error: ") }) else {
        throw TestFailure("no error: \(log)")
      }
      for part in parts + [remedy] { #expect(line.contains(part), "\(line)") }
      #expect(line.hasSuffix("."), "\(line)")
      for word in Self.foreign { #expect(!line.contains(word), "\(word): \(line)") }
    }
  }

  @Test(arguments: ["client", "operator", "federation"])
  func `a port that is in use`(keys: String) async throws {
    let (descriptor, port) = try Loopback.listen()
    defer { close(descriptor) }
    try await Self.expectRefusal(
      ["RELAY_\(keys.uppercased())_PORT": "\(port)"],
      says: ["Port \(port) on 127.0.0.1 is in use by another program."],
      names: "Stop it, or set \(keys).port to another port."
    ) { site in
      guard keys == "federation" else { return }
      try await site.relay("ca", "init")
      try await site.relay("ca", "issue")
    }
  }

  @Test func `an address that this host has not`() async throws {
    // The address is of a network that is reserved for documents.
    try await Self.expectRefusal(
      Self.open(at: "192.0.2.1"), says: ["This host has no address 192.0.2.1"], names: "Set client.host")
  }

  @Test func `a name that does not resolve`() async throws {
    try await Self.expectRefusal(
      Self.open(at: "no.such.name.invalid"), says: ["no.such.name.invalid does not resolve"],
      names: "Set client.host")
  }

  @Test func `certificates that are missing, are none, or are another key's`() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-words-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }  // A leftover in the temporary folder hurts nobody.
    let authority = try TestAuthority()
    let leaves = try (0..<2).map { _ in try authority.leaf(relay: nil) }
    for (index, leaf) in leaves.enumerated() {
      try leaf.write(chain: "\(folder)/\(index).pem", key: "\(folder)/\(index).key")
    }
    try Data("no PEM\n".utf8).write(to: URL(fileURLWithPath: folder + "/text"))
    for (certificate, key, says, remedy) in [
      ("none", "0.key", "client.tls.certificate: \(folder)/none cannot be read: there is no such file", "chain in PEM"),
      ("0.pem", "none", "client.tls.key: \(folder)/none cannot be read: there is no such file", "private key in PEM"),
      ("text", "0.key", "client.tls.certificate: \(folder)/text cannot be used: it holds no certificate", "chain in"),
      ("0.pem", "text", "client.tls.key: \(folder)/text cannot be used: it holds no private key", "private key in PEM"),
      ("0.pem", "1.key", "do not belong together", "Put the key there that the certificate was made with."),
    ] {
      try await Self.expectRefusal(
        ["RELAY_CLIENT_TLS_CERTIFICATE": "\(folder)/\(certificate)", "RELAY_CLIENT_TLS_KEY": "\(folder)/\(key)"],
        says: [says], names: remedy)
    }
  }

  @Test func `a store that does not answer, and one whose name does not resolve`() async throws {
    let port = try Loopback.freePorts(1)[0]
    for (host, says) in [("127.0.0.1:\(port)", "refused"), ("no.such.name.invalid", "no.such.name.invalid")] {
      try await Self.expectRefusal(
        ["RELAY_STORAGE_URL": "postgres://relay@\(host)/relay", "RELAY_STORAGE_START_SECONDS": "0"],
        says: ["The store does not answer", says],
        names: "correct storage.url.")
    }
  }

  @Test func `a folder of attachments that cannot be made`() async throws {
    for (folder, says) in [
      ("/proc/attachments", "there is no such file or folder"), ("/dev/null", "a file stands in the way"),
    ] {
      try await Self.expectRefusal(
        ["RELAY_ATTACHMENTS_URL": "file:\(folder)"], says: [folder, says], names: "Check its owner and mode.")
    }
  }

  @Test func `a program that is missing`() async throws {
    let place = RelayOperator.Place(address: "127.0.0.1", wrapper: ["env", "PATH=/nonexistent"])
    try await RelayOperator.with(at: place) { site in
      let result = try await site.run(["demo"])
      #expect(result.exit == .code(1))
      #expect(
        (result.output + result.errors).contains(
          "setpriv cannot be started: no folder of PATH has it. Install it (Debian: util-linux), or correct PATH."),
        "\(result.errors)")
    }
  }

  @Test func `relay drain where nobody listens`() async throws {
    let port = try Loopback.freePorts(1)[0]
    try await RelayOperator.with { site in
      let result = try await site.run(["drain", "--operator", "http://127.0.0.1:\(port)"])
      #expect(result.exit == .code(1))
      #expect(result.errors.contains("(nobody listens there)"), "\(result.errors)")
      for word in Self.foreign { #expect(!result.errors.contains(word), "\(word): \(result.errors)") }
    }
  }
}
