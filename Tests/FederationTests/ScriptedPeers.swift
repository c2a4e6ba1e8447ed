// Runs relays whose peers are scripted.

import Federation
import TestSupport

/// Runs the relay `beta` with the scripted peers called `names`, in that order.
func withScriptedPeers(
  _ names: [String], limits: PeerLimits = .patient,
  _ body: @Sendable (_ beta: TestRelay, _ peers: [ScriptedPeer]) async throws -> Void
) async throws {
  try await withRelay("beta", limits: limits) { beta in
    var peers: [ScriptedPeer] = []
    for name in names {
      let peer = try await ScriptedPeer.start(name)
      peers.append(peer)
      try await save(peer.authority, as: name, at: beta, url: peer.url)
    }
    let result: Result<Void, any Error>
    do {
      result = .success(try await body(beta, peers))
    } catch {
      result = .failure(error)
    }
    // A test may have closed one itself.
    for peer in peers { try? await peer.close() }
    try result.get()
  }
}
