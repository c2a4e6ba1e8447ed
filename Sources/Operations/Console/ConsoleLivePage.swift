import RelayCore

/// A page that is drawn anew while somebody looks at it.
enum ConsoleLivePage: String, CaseIterable, Sendable {
  case overview, peers, queues, doctor

  var title: String {
    switch self {
    case .overview: "Overview"
    case .peers: "Peers"
    case .queues: "Queues"
    case .doctor: "Doctor"
    }
  }
  var path: String { self == .overview ? "/console" : "/console/\(rawValue)" }
  /// The template of the whole page.
  var template: String { rawValue }
  /// The template of the part that is drawn anew.
  var liveTemplate: String { rawValue + "-live" }

  func values(_ console: Console, _ parts: OperatorAPI.Parts) async throws -> ConsolePages.Values {
    let pages = ConsolePages(now: parts.clock.now())
    switch self {
    case .overview:
      let (report, reasons) = await console.look.report(try await ranking(parts))
      return pages.overview(report, reasons: reasons)
    case .peers:
      let (report, _) = await console.look.report(nil)
      return pages.peers(
        try await parts.console.peers(), await parts.console.identity(), report, relay: console.relay)
    case .queues:
      let (report, _) = await console.look.report(nil)
      return pages.queues(try await parts.console.outbox(), report)
    case .doctor: return pages.findings(await console.look.findings(parts.console))
    }
  }

  private func ranking(_ parts: OperatorAPI.Parts) async throws -> RankedSendersRow {
    let ranked = parts.senders.ranking(of: 5)
    var rows: [RankedSendersRow.Sender] = []
    for sender in ranked.senders {
      rows.append(.init(handle: try await parts.store.handle(of: sender.account).text, messages: sender.messages))
    }
    return RankedSendersRow(seconds: ranked.seconds, senders: rows)
  }
}
