import ChildProcesses
import Foundation
import RelayClient
import TestSupport
import TestTags
import Testing

/// The look-up of contacts as the client library does it by itself: obliviously where the relay offers that.
@Suite(.tags(.processes)) struct ContactLookUpTests {
  private static func client(_ device: TestDevice, at relay: RelayProcess) throws -> RelayClient {
    let number = try #require(PhoneNumber(device.number))
    return try RelayClient(url: relay.url, credentials: Credentials(Correspondent(number), password: device.password))
  }

  private static func serve(
    _ settings: [String: String],
    _ body: (_ relay: RelayProcess, _ client: RelayClient, _ token: String) async throws
      -> Void
  ) async throws {
    try await RelayOperator.with(settings: settings) { site in
      let relay = try await site.serve()
      let (caller, other) = (try await relay.register(), try await relay.register())
      try await body(relay, try client(caller, at: relay), try TestTokens.token(of: other.number))
      #expect(await relay.terminate() == .code(0))
    }
  }

  /// Elements that were evaluated for clients.
  private static func evaluated(_ relay: RelayProcess) async throws -> Int? {
    try await relay.ask("/metrics").text.split(separator: "\n").first {
      $0.hasPrefix("relay_oblivious_answers_total ")
    }?.split(separator: " ").last.flatMap { Int($0) }
  }

  @Test func `a relay offers oblivious look-ups by itself, and is asked for no contact in clear`() async throws {
    try await Self.serve(RelayUnderTest.unlimited) { relay, client, token in
      var contacts = ObliviousContacts()
      try await eventually("the contact is found", every: .milliseconds(100)) {
        do throws(RelayClientError) {
          return try await client.lookUp([token], contacts: &contacts) == [Contact(token: token, relay: nil)]
        } catch {
          guard error.status == 503 else { throw error }
          return false
        }
      }
      #expect(contacts.key != nil && contacts.count == 1)
      let before = try await Self.evaluated(relay)
      #expect(before == 1)
      #expect(try await client.lookUp([token], contacts: &contacts).count == 1)
      let after = try await Self.evaluated(relay)
      #expect(after == before, "a contact is sent once")
    }
  }

  @Test func `where it is not offered contacts are asked for in clear, but not where it was offered before`()
    async throws
  {
    try await Self.serve(RelayUnderTest.unlimited.merging(["RELAY_DIRECTORY_OBLIVIOUS": "false"]) { $1 }) {
      relay, client, token in
      var contacts = ObliviousContacts()
      #expect(try await client.lookUp([token], contacts: &contacts) == [Contact(token: token, relay: nil)])
      #expect(contacts.key == nil && contacts.count == 0)
      var former = try JSONDecoder().decode(ObliviousContacts.self, from: Data(#"{"key":"AA==","outputs":{}}"#.utf8))
      var statuses: [Int?] = []
      do throws(RelayClientError) {
        _ = try await client.lookUp([token], contacts: &former)
      } catch {
        statuses.append(error.status)
      }
      do throws(RelayClientError) {
        _ = try await client.lookUpObliviously([token], contacts: &contacts)
      } catch {
        statuses.append(error.status)
      }
      #expect(statuses == [404, 404])
    }
  }
}
