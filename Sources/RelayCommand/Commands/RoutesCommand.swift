import ArgumentParser
import AsyncHTTPClient
import Foundation
import Hummingbird
import Logging
import Operations
import Relay
import RelayConfiguration
import RelayCore
import RelayHTTP

struct RoutesCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "routes",
    abstract: "Print the paths of the client API, one a line.",
    discussion: "docs/openapi.yaml describes what each of them answers.")

  func run() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-routes-\(UUID().uuidString)")
    let client = HTTPClient(eventLoopGroupProvider: .singleton)
    let outcome: Result<[String], any Error>
    do {
      outcome = .success(try await Self.routes(in: folder, client))
    } catch {
      outcome = .failure(error)
    }
    try await client.shutdown()
    try FileManager.default.removeItem(at: folder)
    for line in try outcome.get() { Output.line(line) }
  }

  /// The router of a relay over empty stores in `folder`.
  private static func routes(in folder: URL, _ client: HTTPClient) async throws -> [String] {
    let settings = try RelayConfiguration.load(
      file: nil,
      environment: [
        "RELAY_STORAGE_URL": "sqlite:\(folder.path)/relay.sqlite", "RELAY_ATTACHMENTS_URL": "file:\(folder.path)/blobs",
      ]
    ).configuration
    let logger = Logger(label: "relay.routes") { _ in SwiftLogNoOpLogHandler() }
    let coordination = try openCoordination(settings, logger: logger)
    var lines: [String] = []
    try await withStorage(settings) { storage in
      let local = LocalGraph(
        settings, storage: storage, coordination: coordination, peers: nil, quickPeers: nil, notifier: nil,
        logger: logger)
      let attachments = try await AttachmentGraph(
        settings.attachments, at: settings.client.url, present: { settings.attachments }, storage: storage,
        client: client,
        logger: logger)
      let directory = try DirectoryGraph(
        settings.directory, storage: storage, coordination: coordination, readiness: Readiness(), logger: logger)
      let clients = ClientGraph(
        settings, local, storage: storage, coordination: coordination, courier: NoPeers(), homes: NoPeers(),
        finder: nil, directory: directory.follower, lookUps: directory.lookUps, attachments: attachments,
        sender: LogSender(logger: logger),
        webPush: WakingGraph.webPushTerms(settings.push, by: nil), load: RequestLoad(logger: logger), logger: logger)
      lines = Set(clients.router.routes.map { String(describing: $0.path) }).sorted()
    }
    return lines
  }
}
