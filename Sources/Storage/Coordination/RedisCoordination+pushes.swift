package import RelayCore

extension RedisCoordination: PushBoard {
  package var pushBoard: (any PushBoard)? { self }

  package func claim(_ pushes: [PushMark], by claimant: UInt64) async -> [PushClaim]? {
    var claims: [PushClaim] = []
    for some in pushes.chunks(of: Self.pushesMax) {
      let arguments = Self.words([String(claimant, radix: 36), Self.claimMillis]) + some.map(\.bytes)
      let reply = await commands.run(ClaimPushesScript.script, keys: pushKeys, bytes: arguments)
      guard let found = ClaimPushesScript.claims(reply, count: some.count) else { return nil }
      claims += found
    }
    return claims
  }

  package func settle(_ pushes: [(push: PushMark, result: PushResult?)], by claimant: UInt64) async {
    for some in pushes.chunks(of: Self.pushesMax) {
      var arguments = Self.words([String(claimant, radix: 36), Self.rememberedMax, Self.lifeMillis])
      for (push, result) in some { arguments += [push.bytes, SettlePushesScript.word(result)] }
      // If it is lost a claim ends by itself, and a repeat causes one more push.
      _ = await commands.run(SettlePushesScript.script, keys: pushKeys, bytes: arguments)
    }
  }

  /// All that a script touches: a cluster whose slot is on its way looks at these.
  private var pushKeys: [String] { ["", ":0", ":1"].map { prefix + "{pushes}" + $0 } }
  private static func words(_ words: [String]) -> [[UInt8]] { words.map { Array($0.utf8) } }

  /// Pushes in one script: a millisecond or so.
  private static let pushesMax = 500
  /// Entries in one hash of two, about 80 bytes each.
  private static let rememberedMax = "250000"
  /// Homeservers repeat for a day.
  private static let lifeMillis = "86400000"
  /// More than a request to the gateway may take.
  private static let claimMillis = "60000"
}
