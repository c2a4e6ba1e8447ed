import ChildProcesses
import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

/// A deleted account's credentials, keys and number are of no use to anybody.
@Suite(.tags(.processes)) struct DeletedAccountTests {
  @Test(.timeLimit(.minutes(5))) func `a deleted account is closed at every process at once`() async throws {
    try await Victim.with(.servers) { victim in
      let second = try await victim.site.serve()
      let (ann, bob) = (try await victim.relay.register(), try await victim.relay.register())
      for relay in [victim.relay, second] {
        #expect(try await relay.send("GET", "/v1/keys", as: bob).status == 200)
      }
      let login = "/v1/websocket/?login=%2B\(bob.number.dropFirst())&password=\(bob.password)"
      let socket = try await RawSocket.open(login, on: second.clientPort)
      try await victim.site.relay("accounts", "ban", bob.number)
      try await socket.ended(within: .seconds(20))
      await socket.close()
      for relay in [victim.relay, second] {
        // By Redis: without it an account is remembered for a minute.
        try await eventually("the credentials are refused", within: .seconds(20)) {
          try await relay.send("GET", "/v1/keys", as: bob).status == 401
        }
        let path = "/v1/keys/\(bob.number)"
        #expect(try await relay.send("GET", path, as: ann).status == 404)
        #expect(try await relay.send("GET", "/v1/accounts/dev/code/\(bob.number)").status == 403)
      }
      #expect(await second.terminate() == .code(0))
    }
  }
}
