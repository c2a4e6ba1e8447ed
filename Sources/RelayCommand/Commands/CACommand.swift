import ArgumentParser
import Federation
import RelayConfiguration
import RelayCore

struct CACommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ca", abstract: "This operator's own certificate authority, the root of its identity among peers.",
    subcommands: [Init.self, Issue.self, Renew.self])

  struct Init: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Make the CA in federation.directory.",
      discussion: "Keep a backup of ca.key: peers know this relay by it, and serving does not need it.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Destroy an existing CA. Every peer has to be invited anew.") var replace = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let settings = try configuration.load().configuration
      let folder = IdentityFolder(path: settings.federation.directory)
      let made = try folder.createAuthority(for: settings.name, replacing: replace, now: .now)
      try CACommand.show(made, file: folder.authorityFile, what: "CA of \(settings.name)", json: json)
    }
  }

  struct Issue: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Issue this relay's leaf certificate, with a new key.",
      discussion: "It carries the host of federation.url and the relay's name.")
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
      abstract: "Issue a new leaf certificate for the key that is there.",
      discussion: "Running relays take it up within seconds; their connections stay.")
    @OptionGroup var configuration: ConfigurationOption
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
      let (settings, endpoint) = try CACommand.endpoint(configuration)
      let folder = IdentityFolder(path: settings.federation.directory)
      let made = try folder.renewLeaf(for: settings.name, at: endpoint, now: .now)
      try CACommand.show(made, file: folder.leafFile, what: "certificate of \(settings.name)", json: json)
    }
  }

  private struct Made: Encodable {
    let file: String
    let fingerprint: String
    let expires: String
  }

  private static func show(_ made: IssuedCertificate, file: String, what: String, json: Bool) throws {
    let fingerprint = made.fingerprint.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    if json { return try Output.json(Made(file: file, fingerprint: fingerprint, expires: made.expires.iso8601)) }
    Output.line("Wrote the \(what) to \(file).")
    Output.line("Key fingerprint (SHA-256): \(fingerprint)")
    Output.line("Valid until \(made.expires.iso8601).")
  }

  private static func endpoint(_ option: ConfigurationOption) throws -> (RelayConfiguration, PeerEndpoint) {
    let settings = try option.load().configuration
    return (settings, try settings.federation.endpoint("the certificate must carry its host"))
  }
}

extension Timestamp {
  static var now: Timestamp { WallClock.system.now() }
}
