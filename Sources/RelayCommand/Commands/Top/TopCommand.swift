import ArgumentParser
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Operations
import RelayConfiguration
import RelayCore
import RelayHTTP
import RelayWork

struct TopCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "top", abstract: "Watch a relay at work: rates, latencies, queues, peers, pushes, stores.",
    discussion: """
      Asks the operator's listener of each process, every two seconds; q ends it. Rates are those since the last look. \
      SENDERS are accounts by their handles, where operator.read-tokens is set: how much they send, and nothing of what or \
      to whom. A peer that is ALONE was left alone after failures (`relay peer test` says more). --once prints one look \
      and ends; so it does where there is no terminal.
      """)
  @OptionGroup var configuration: ConfigurationOption
  @Option(
    help: ArgumentHelp(
      "The operator's listener of a process; may be given more than once. Default: operator.host and operator.port.",
      valueName: "url"))
  var url: [String] = []
  @Option(help: ArgumentHelp("Between two looks, 1 to 60.", valueName: "seconds")) var every = 2.0
  @Flag(help: "Look once, over the time of --every, and end.") var once = false
  @Flag(help: "Print JSON: once, or a line at each look.") var json = false

  func validate() throws {
    guard (1...60).contains(every) else { throw ValidationError("--every takes 1 to 60 seconds.") }
    guard url.allSatisfy({ $0.hasPrefix("http://") }) else {
      throw ValidationError("--url takes a URL such as http://127.0.0.1:8081.")
    }
  }

  func run() async throws {
    let settings = try configuration.load().configuration
    let urls = try url.isEmpty ? [settings.operations.url(otherwise: "--url")] : url
    let token = (settings.operations.readTokens + settings.operations.changeTokens).first?.token
    var outbound = HTTPClient.Configuration(timeout: .init(connect: .seconds(3), read: .seconds(5)))
    outbound.connectionPool.retryConnectionEstablishment = false
    try await HTTPClient.withHTTPClient(configuration: outbound) { client in
      let site = TopSite(
        urls: urls.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }, token: token, client: client)
      if once { return try await lookOnce(site, settings.name.text) }
      if json { return try await printLines(site, settings.name.text) }
      guard let terminal = TopTerminal() else { return try await lookOnce(site, settings.name.text) }
      defer { terminal.restore() }
      await watch(site, settings.name.text, terminal)
    }
  }

  private func lookOnce(_ site: TopSite, _ name: String) async throws {
    let before = await site.look()
    try Self.demandAnswer(before)
    await Pause.for(.seconds(every))
    let report = TopReport(name, TopSite.pairs(before, await site.look()))
    if json { return try Output.json(report) }
    for line in TopScreen(width: TopTerminal.size.columns).lines(report, at: TopClock.timeOfDay()) { Output.line(line) }
  }

  private func printLines(_ site: TopSite, _ name: String) async throws {
    var before = await site.look()
    try Self.demandAnswer(before)
    for await _ in Periodic(every: .seconds(every), from: .afterInterval) {
      let after = await site.look()
      try Output.jsonLine(TopReport(name, TopSite.pairs(before, after)))
      guard Output.isRead else { return }
      before = after
    }
  }

  private func watch(_ site: TopSite, _ name: String, _ terminal: TopTerminal) async {
    var before = await site.look()
    // The first rates come soon.
    var pause = 0.5
    while true {
      if terminal.ends(within: pause) { return }
      let after = await site.look()
      let report = TopReport(name, TopSite.pairs(before, after))
      terminal.show(TopScreen(width: TopTerminal.size.columns).lines(report, at: TopClock.timeOfDay()))
      (before, pause) = (after, every)
    }
  }

  /// - Throws: `CommandFailure` where no process answers.
  private static func demandAnswer(_ looks: [TopSite.Look]) throws {
    guard looks.allSatisfy({ $0.found == nil }), let first = looks.first else { return }
    throw CommandFailure(
      "Nothing answers at \(first.url) (\(first.fault ?? "no answer")). Is the process running? --url names its operator.host "
        + "and operator.port.")
  }
}

/// The processes that are watched.
struct TopSite {
  struct Look {
    let url: String
    let found: ProcessLook?
    let fault: String?
  }

  let urls: [String]
  let token: Secret?
  let client: HTTPClient

  func look() async -> [Look] {
    await withTaskGroup(of: (Int, Look).self) { group in
      for (index, url) in urls.enumerated() { group.addTask { (index, await look(at: url)) } }
      var looks: [(Int, Look)] = []
      for await look in group { looks.append(look) }
      return looks.sorted { $0.0 < $1.0 }.map(\.1)
    }
  }

  static func pairs(
    _ before: [Look], _ after: [Look]
  ) -> [(url: String, before: ProcessLook?, after: ProcessLook?, fault: String?)] {
    zip(before, after).map { ($1.url, $0.found, $1.found, $1.fault) }
  }

  private func look(at url: String) async -> Look {
    do {
      let (status, page) = try await ask(url + "/metrics")
      guard status == 200 else { return Look(url: url, found: nil, fault: "it answers \(status)") }
      let time = ContinuousClock.now
      let (ready, reasons) = try await ask(url + "/readyz")
      return Look(
        url: url,
        found: ProcessLook(
          url: url, page: MetricsPage(String(buffer: page)), time: time, wallSeconds: TopClock.secondsSince1970(),
          isReady: ready == 200, reasons: Self.reasons(reasons), senders: await senders(at: url)), fault: nil)
    } catch {
      return Look(url: url, found: nil, fault: FaultWords.of(error))
    }
  }

  private func senders(at url: String) async -> RankedSendersRow? {
    guard token != nil, let (status, body) = try? await ask(url + "/api/v1/senders?limit=20"), status == 200 else {
      return nil
    }
    return try? JSONDecoder().decode(RankedSendersRow.self, from: Data(body.readableBytesView))
  }

  private struct Answer: Decodable {
    let reasons: [String: String]?
  }

  private static func reasons(_ body: ByteBuffer) -> [String: String] {
    (try? JSONDecoder().decode(Answer.self, from: Data(body.readableBytesView)))?.reasons ?? [:]
  }

  private func ask(_ url: String) async throws -> (Int, ByteBuffer) {
    var request = HTTPClientRequest(url: url)
    if let token { request.headers.add(name: "Authorization", value: "Bearer \(token.value)") }
    let response = try await client.execute(request, timeout: .seconds(5))
    return (Int(response.status.code), try await response.body.collect(upTo: Self.pageBytesMax))
  }

  private static let pageBytesMax = 16 << 20
}
