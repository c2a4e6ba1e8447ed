import ArgumentParser
import Federation
import RelayConfiguration
import RelayCore

struct CACommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ca", abstract: "This operator's own certificate authority, the root of its identity among peers.",
    subcommands: [Init.self, Issue.self, Renew.self, List.self, Revoke.self, CARolloverCommand.self])

  struct Init: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "init",
      abstract: "Make the CA in federation.directory.",
      discussion: "Keep a backup of ca.key: peers know this relay by it, and serving does not need it.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Destroy an existing CA. Every peer has to be invited anew.") var replace = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let settings = try configuration.load().configuration
      let folder = IdentityFolder(path: settings.federation.directory)
      let made = try folder.createAuthority(for: settings.name, replacing: replace, now: .now)
      try CACommand.show(made, file: folder.authorityFile, what: "CA of \(settings.name)", ofCA: true, json: json)
    }
  }

  struct Issue: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "issue",
      abstract: "Issue this relay's leaf certificate, with a new key.",
      discussion: """
        It carries the host of federation.url and the relay's name. Running relays take it up within seconds; their \
        connections stay. The leaf before it stays valid, for processes that still hold it, until it ends or is revoked.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let (settings, endpoint) = try CACommand.endpoint(configuration)
      let folder = IdentityFolder(path: settings.federation.directory)
      let made = try folder.issueLeaf(for: settings.name, at: endpoint, now: .now)
      try CACommand.show(made, file: folder.leafFile, what: "certificate of \(settings.name)", json: json)
    }
  }

  struct Renew: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "renew",
      abstract: "Issue a new leaf certificate for the key that is there.",
      discussion: """
        Running relays take it up within seconds; their connections stay. For a daily job: `relay ca renew --if-within 30`.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Option(help: ArgumentHelp("Do nothing while the leaf lasts longer than so many days.", valueName: "days"))
    var ifWithin: Int?
    @Flag(help: "Print JSON.") var json = false

    /// Longer than any leaf lasts.
    private static let daysMax = 3650

    func validate() throws {
      guard ifWithin.map({ (0...Self.daysMax).contains($0) }) ?? true else {
        throw ValidationError("--if-within must be 0 to \(Self.daysMax).")
      }
    }

    func run() async throws {
      let (settings, endpoint) = try CACommand.endpoint(configuration)
      let folder = IdentityFolder(path: settings.federation.directory)
      let remaining = Duration.seconds((ifWithin ?? Self.daysMax) * 86_400)
      guard let made = try folder.renewLeaf(for: settings.name, at: endpoint, ifWithin: remaining, now: .now) else {
        let end = try folder.load(for: settings.name).leafExpires
        if json { return try Output.json(Kept(file: folder.leafFile, expires: end.iso8601)) }
        return Output.line("Nothing to do: the certificate is valid until \(end.iso8601).")
      }
      try CACommand.show(made, file: folder.leafFile, what: "certificate of \(settings.name)", json: json)
    }

    private struct Kept: Encodable {
      let file: String
      let expires: String
      let renewed = false
    }
  }

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list",
      abstract: "List the leaf certificates that the CA issued and that have not ended.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    private struct Row: Encodable {
      let serial: String
      let made: String
      let expires: String
      let state: String
    }

    func run() async throws {
      let settings = try configuration.load().configuration
      let folder = IdentityFolder(path: settings.federation.directory)
      let present = try folder.presentSerial()
      let rows = try folder.issuedLeaves(now: .now).map { leaf in
        Row(
          serial: leaf.serialText, made: leaf.made.iso8601, expires: leaf.expires.iso8601,
          state: leaf.isRevoked ? "revoked" : leaf.serialText == present ? "present" : "valid")
      }
      if json { return try Output.json(rows) }
      Output.table(
        [["SERIAL", "MADE", "VALID UNTIL", "STATE"]] + rows.map { [$0.serial, $0.made, $0.expires, $0.state] })
    }
  }

  struct Revoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "revoke",
      abstract: "Withdraw a leaf certificate: peers refuse it within a minute.",
      discussion: """
        Peers learn of it from this relay's statement, which running relays show within seconds. Where the key of the \
        present leaf was stolen: `relay ca revoke --leaf`, then `relay ca issue`.
        """)
    @OptionGroup var configuration: ConfigurationOption
    @Argument(help: "Its serial number, as `relay ca list` shows it.") var serial: String?
    @Flag(help: "The leaf that is in place.") var leaf = false
    @Flag(help: "Print JSON.") var json = false

    private struct Revoked: Encodable {
      let serial: String
      let wasPresent: Bool
    }

    func validate() throws {
      guard (serial == nil) == leaf else { throw ValidationError("Give a serial number, or --leaf.") }
    }

    func run() async throws {
      let settings = try configuration.load().configuration
      let folder = IdentityFolder(path: settings.federation.directory)
      let present = try folder.presentSerial()
      let revoked = (serial ?? present).lowercased()
      try folder.revokeLeaf(revoked, of: settings.name, now: .now)
      if json { return try Output.json(Revoked(serial: revoked, wasPresent: revoked == present)) }
      Output.line("Revoked \(revoked). Peers refuse it once they have read \(folder.statementFile).")
      if revoked == present { Output.line("It is the one in place: run `relay ca issue` now.") }
    }
  }

  private struct Made: Encodable {
    let file: String
    let fingerprint: String
    let expires: String
    let words: String?
  }

  /// - Parameter ofCA: whether the certificate is one that peers know this relay by.
  static func show(
    _ made: IssuedCertificate, file: String, what: String, ofCA: Bool = false, json: Bool
  ) throws {
    let words = ofCA ? made.words.description : nil
    if json {
      return try Output.json(
        Made(file: file, fingerprint: made.fingerprintText, expires: made.expires.iso8601, words: words))
    }
    Output.line("Wrote the \(what) to \(file).")
    Output.line("Key fingerprint (SHA-256): \(made.fingerprintText)")
    if let words { Output.line("Its words, which peers see: \(words)") }
    Output.line("Valid until \(made.expires.iso8601).")
  }

  static func endpoint(_ option: ConfigurationOption) throws -> (RelayConfiguration, PeerEndpoint) {
    let settings = try option.load().configuration
    return (settings, try settings.federation.endpoint("the certificate must carry its host"))
  }
}

extension Timestamp {
  static var now: Timestamp { WallClock.system.now() }
}
