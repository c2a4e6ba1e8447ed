import ArgumentParser
import Federation
import RelayConfiguration
import RelayCore
import Storage

struct CARolloverCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "rollover", abstract: "Replace the CA without peering anew.",
    discussion: """
      `begin` makes the next CA and has the present one vouch for it; serving peers take that up by themselves. When \
      `status` shows that all have, `finish` puts the next CA in the place of the present one.
      """,
    subcommands: [Begin.self, Status.self, Finish.self, Cancel.self])

  struct Begin: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "begin",
      abstract: "Make the next CA and tell peers of it.", discussion: "Repeating it is safe.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let settings = try configuration.load().configuration
      let folder = IdentityFolder(path: settings.federation.directory)
      let made = try folder.beginRollover(for: settings.name, now: .now)
      try CACommand.show(
        made, file: folder.nextAuthorityFile, what: "next CA of \(settings.name)", ofCA: true, json: json)
      if !json { Output.line("`relay ca rollover status` shows which peers have taken it up.") }
    }
  }

  struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "status", abstract: "Show which peers have taken the next CA up.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let settings = try configuration.load().configuration
      let next = try IdentityFolder(path: settings.federation.directory).rollover()
      let rows = try await CARolloverCommand.survey(settings, about: next)
      if json {
        return try Output.json(
          Printed(
            fingerprint: next.fingerprintText, words: next.words.description, peers: rows,
            isReady: rows.allSatisfy(\.takenUp)))
      }
      Output.line("Next CA, key fingerprint (SHA-256): \(next.fingerprintText)")
      Output.line("Its words, which peers see: \(next.words)")
      Output.table([["PEER", "NEXT CA"]] + rows.map { [$0.name, $0.text] })
      if rows.allSatisfy(\.takenUp) { Output.line("All have: run `relay ca rollover finish`.") }
    }

    private struct Printed: Encodable {
      let fingerprint: String
      let words: String
      let peers: [Row]
      let isReady: Bool
    }
  }

  struct Finish: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "finish",
      abstract: "Put the next CA in the place of the present one, and issue a leaf by it.",
      discussion: """
        Running relays take it up within seconds; their connections stay. Repeating it after a crash is safe. Where other \
        hosts serve with copies of the files, peers would refuse these: run it with --leaf-only first, copy leaf.pem, \
        leaf.key and ca-next.pem to every host, and run it again without.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Only issue the leaf by the next CA: peers accept leaves of both until this is run without it.")
    var leafOnly = false
    @Flag(help: "Although a peer has not taken it up: that peer has to be invited anew.") var force = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let (settings, endpoint) = try CACommand.endpoint(configuration)
      let folder = IdentityFolder(path: settings.federation.directory)
      let next = try folder.rollover()
      if !force {
        let missing = try await CARolloverCommand.survey(settings, about: next).filter { !$0.takenUp }
        guard missing.isEmpty else {
          let list = missing.map { "\($0.name) (\($0.text))" }.joined(separator: ", ")
          throw CommandFailure(
            "Nothing was done. Not every active peer has taken the next CA up: \(list). Wait a minute for peers that"
              + " answer; suspend or remove a peer that is gone, or use --force and peer with it anew.")
        }
      }
      if leafOnly {
        let made = try folder.issueNextLeaf(for: settings.name, at: endpoint, now: .now)
        try CACommand.show(made, file: folder.leafFile, what: "leaf of the next CA", json: json)
        if !json {
          Output.line(
            "Copy leaf.pem, leaf.key and ca-next.pem to every other host, then run `relay ca rollover finish`.")
        }
        return
      }
      let made = try folder.finishRollover(for: settings.name, at: endpoint, now: .now)
      try CACommand.show(made, file: folder.authorityFile, what: "CA of \(settings.name)", ofCA: true, json: json)
      if !json { Output.line("Keep a backup of \(folder.authorityKeyFile).") }
    }
  }

  struct Cancel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "cancel",
      abstract: "Give the next CA up.", discussion: "Peers forget it within a minute.")
    @OptionGroup var configuration: ConfigurationOption

    func run() async throws {
      let settings = try configuration.load().configuration
      try IdentityFolder(path: settings.federation.directory).cancelRollover(for: settings.name, now: .now)
      Output.line("The next CA is gone; the present one stays.")
    }
  }

  fileprivate struct Row: Encodable {
    let name: String
    let takenUp: Bool
    let text: String
  }

  /// Every active peer, ascending by name.
  fileprivate static func survey(
    _ settings: RelayConfiguration, about next: IssuedCertificate
  ) async throws -> [Row] {
    LogOutput.bootstrap(settings.log)
    var rows: [Row] = []
    try await withStorage(settings) { storage in
      let peers = try await storage.peers().compactMap { KnownPeer($0) }.filter(\.isActive)
      let credentials = try IdentityFolder(path: settings.federation.directory).load(for: settings.name)
      let survey = RolloverSurvey(credentials: credentials, addresses: settings.federation.peerAddresses)
      let findings = await survey.ask(peers, about: next.fingerprint)
      rows = peers.map { peer in
        let finding = findings[peer.name]
        return Row(name: peer.name.text, takenUp: finding == .takenUp, text: finding?.text ?? "not asked")
      }
    }
    return rows
  }
}
