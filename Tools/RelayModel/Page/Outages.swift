import RelayCore

/// The simulations of docs/scale.md, "What happens when …".
struct Outages {
  let outbox: [(name: String, outcome: OutboxSimulation.Outcome)]
  let push: [(name: String, outcome: PushSimulation.Outcome)]
  let reconnect: [(name: String, outcome: ReconnectSimulation.Outcome)]

  /// - Throws: `ModelFailure`.
  init(_ constants: Constants) throws {
    var refusing = OutboxSimulation.Settings()
    refusing.processes = 4
    var silent = refusing
    silent.isSilent = true
    var flood = silent
    flood.messagesPerSecond = 200
    flood.conversations = 1000
    outbox = try [("takes no connections", refusing), ("is silent", silent), ("is silent, 200 messages/s", flood)].map {
      ($0.0, try OutboxSimulation.run($0.1))
    }

    let halted = PushSimulation.Settings()
    var busy = halted
    busy.isSilent = false
    var several = halted
    several.provider = .webPush
    several.services = 4
    push = try [
      ("APNs is silent", halted), ("APNs answers 503", busy), ("one of four WebPush services is silent", several),
    ]
    .map { ($0.0, try PushSimulation.run($0.1)) }

    var library = ReconnectSimulation.Settings()
    library.connectMillis = constants[.connectTLS]
    var impatient = library
    (impatient.firstPause, impatient.longestPause) = (0, 0)
    var full = library
    (full.connectionsMax, full.seconds) = (12_000, 120)
    reconnect = try [
      ("pauses of the client library", library), ("no pauses", impatient), ("pauses, too little room", full),
    ].map { ($0.0, try ReconnectSimulation.run($0.1)) }
  }
}
