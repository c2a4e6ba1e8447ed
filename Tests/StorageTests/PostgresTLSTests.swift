import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// PostgreSQL inside TLS: what of libpq's settings in `storage.url` protects.
@Suite(.tags(.stores)) struct PostgresTLSTests {
  @Test func `the server is verified by name and CA, and refused where either is another's`() async throws {
    let authority = try TestAuthority("postgres")
    let tls = ServerTLS(try authority.leaf(relay: nil, host: "db.example"), clients: authority)
    let server = try await Loopback.blocking { try PostgresServer(tls: tls) }
    let folder = server.folder
    try authority.pem.write(toFile: folder + "/authority.pem", atomically: true, encoding: .utf8)
    try TestAuthority("other").pem.write(toFile: folder + "/other.pem", atomically: true, encoding: .utf8)
    try authority.leaf(relay: nil).write(chain: folder + "/relay.pem", key: folder + "/relay.key")
    // libpq refuses a key that others may read.
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: folder + "/relay.key")
    let database = try await Loopback.blocking { try server.createDatabase() }
    let presented = "&sslcert=\(folder)/relay.pem&sslkey=\(folder)/relay.key"

    func url(host: String, _ mode: String, authority: String = "authority", _ more: String) -> String {
      database.replacing("127.0.0.1", with: host)
        + "?hostaddr=127.0.0.1&sslmode=\(mode)&sslrootcert=\(folder)/\(authority).pem\(more)"
    }
    func expectRefusal(_ url: String, _ words: String) async throws {
      let storage = try PostgresStorage(url: url, logger: .quiet)
      await #expect(throws: StoreError.self) { try await storage.ping() }
      try await eventually("the fault says \(words)") { storage.connectFault?.contains(words) == true }
      await storage.close()
    }

    let right = try await PostgresStorage.connected(to: url(host: "db.example", "verify-full", presented))
    try await right.migrate { _ in }
    let way = try await right.diagnose().way
    #expect(way.encryption == "TLSv1.3" && way.isVerified)
    #expect(right.connectFault == nil)
    await right.close()

    try await expectRefusal(url(host: "db.example", "verify-full", authority: "other", presented), "certificate")
    try await expectRefusal(url(host: "localhost", "verify-full", presented), "does not match host name \"localhost\"")
    try await expectRefusal(url(host: "db.example", "verify-full", "&sslcert=/none"), "certificate")
    try await expectRefusal(url(host: "db.example", "disable", ""), "no encryption")

    // Encrypted, and anybody's.
    let trusting = try await PostgresStorage.connected(to: url(host: "localhost", "verify-ca", presented))
    let unverified = try await trusting.diagnose().way
    #expect(unverified.encryption == "TLSv1.3" && !unverified.isVerified && unverified.sslMode == "verify-ca")
    await trusting.close()
  }
}
