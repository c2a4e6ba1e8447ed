// The steps by which operators become peers, by their commands, and the acts of somebody between them on an
// invitation.

import ChildProcesses
import Foundation
import NIOSSL
import RelayCore
import TestSupport

/// The output of `relay peer invite --json`.
struct PrintedInvitation: Decodable {
  let invitation: String
  let scopes: [String]
  let ourWords: String
}

/// A peer in the output of `relay peer list --json` and `relay peer accept --json`.
struct PrintedPeer: Decodable {
  let name: String
  let url: String
  let state: String
  let scopes: [String]
  let gets: [String]?
  let ourWords: String
  let theirWords: String
}

/// An invitation opened, as whoever reads it on its way can.
struct OpenedInvitation: Codable {
  var name: String
  var url: String
  var ca: String
  var secret: String
  var expires: Int64
  var scopes: [String]

  private static var encoder: JSONEncoder {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .withoutEscapingSlashes
    return encoder
  }

  init(_ word: String) throws {
    guard word.hasPrefix("relay1."), let bytes = Base64.decode(String(word.dropFirst(7))) else {
      throw TestFailure("no invitation")
    }
    self = try JSONDecoder().decode(OpenedInvitation.self, from: Data(bytes))
  }

  var word: String {
    get throws { "relay1." + Base64.encodeURLSafe(Array(try Self.encoder.encode(self))) }
  }

  /// The body with which `name`, whose certificate the connection shows, redeems it.
  func redemption(as name: String, at url: String) throws -> String {
    String(decoding: try Self.encoder.encode(["secret": secret, "name": name, "url": url]), as: UTF8.self)
  }
}

extension RelayOperator {
  func invite(scope: String = "messages,keys,directory,attachments") async throws -> PrintedInvitation {
    try Self.decode(try await relay("peer", "invite", "--scope", scope, "--json"))
  }

  func accept(_ invitation: String, _ options: String...) async throws -> PrintedPeer {
    let result = try await run(["peer", "accept", invitation, "--json"] + options)
    guard result.exit == .code(0) else { throw TestFailure("relay peer accept \(result.exit): \(result.errors)") }
    return try Self.decode(result.output)
  }

  func peers() async throws -> [PrintedPeer] { try Self.decode(try await relay("peer", "list", "--json")) }

  private static func decode<Value: Decodable>(_ text: String) throws -> Value {
    try JSONDecoder().decode(Value.self, from: Data(text.utf8))
  }

  /// Runs `body` with a client that presents this operator's own leaf to `victim`.
  func withClient<Value>(to victim: Victim, _ body: (RawClient) async throws -> Value) async throws -> Value {
    var configuration = try TestLeaf.anonymousConfiguration(trusting: victim.authority)
    configuration.certificateChain = try NIOSSLCertificate.fromPEMFile("\(folder)/federation/leaf.pem")
      .map { .certificate($0) }
    configuration.privateKey = .privateKey(
      try NIOSSLPrivateKey(file: "\(folder)/federation/leaf.key", format: .pem))
    return try await TestSupport.withClient(to: victim.federationURL, configuration, body)
  }
}

/// Runs `body` with another operator on embedded stores, which serves under a CA of its own.
func withOperator(_ name: String, _ body: (RelayOperator) async throws -> Void) async throws {
  try await RelayOperator.with(name, settings: Victim.unlimited) { site in
    try await site.relay("ca", "init")
    try await site.relay("ca", "issue")
    let relay = try await site.serve(["RELAY_FEDERATION_PORT": "\(site.federationPort)"])
    do {
      try await body(site)
    } catch {
      await relay.kill9()
      throw error
    }
    await relay.terminate()
  }
}
