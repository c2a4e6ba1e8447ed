import ArgumentParser
import Foundation
import Glibc
import RelayConfiguration
import RelayCore

struct InitCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "init", abstract: "Set a relay up: configuration, keys, certificates, and a unit for systemd.",
    discussion: """
      Asks what it must know, and takes what is given by options. It writes new files alone, checks the configuration, and \
      leaves nothing behind where something is wrong. Secrets get files of their own that only their owner may read. \
      Embedded stores are the default; for several processes give --storage and --redis.
      """)

  @Option(help: "Where configuration and secrets go. Default: /etc/relay for root, else ./relay.") var folder: String?
  @Option(help: "Where the relay writes. Default: /var/lib/relay for root, else FOLDER/data.") var data: String?
  @Option(help: "The relay's name, as peers know it.") var name: String?
  @Option(help: "The public host name, which clients and peers reach.") var host: String?
  @Option(
    help: ArgumentHelp("PEM chain of the clients' TLS. Without it a proxy on this host ends TLS.", valueName: "file"))
  var certificate: String?
  @Option(help: ArgumentHelp("PEM key to it.", valueName: "file")) var key: String?
  @Option(help: "The clients' port. Default: 443 with a certificate, else 8080 on 127.0.0.1.") var clientPort: Int?
  @Option(help: "The port for peers.") var federationPort = 8443
  @Flag(help: "No peers.") var noPeers = false
  @Option(
    help: ArgumentHelp("postgres://USER:PASSWORD@HOST/DATABASE; a dash reads it from standard input.", valueName: "url")
  )
  var storage: String?
  @Option(help: ArgumentHelp("redis://HOST:6379, for several processes.", valueName: "url")) var redis: String?
  @Option(help: ArgumentHelp("How codes reach people.", valueName: "log|webhook|twilio")) var codes: InitPlan.Codes?
  @Option(help: ArgumentHelp("Where the sender webhook posts codes.", valueName: "url")) var webhookUrl: String?
  @Option(help: "Twilio's account SID.") var twilioAccount: String?
  @Option(help: "The number or service that Twilio sends from.") var twilioFrom: String?
  @Option(help: ArgumentHelp("A file with Twilio's auth token.", valueName: "file")) var twilioTokenFile: String?
  @Option(help: "Who runs the relay, where root sets it up.") var user = InitSite.serviceUser
  @Flag(name: .long, help: "Ask nothing: options and defaults say it all.") var yes = false
  @Flag(help: "Print the unit that the Debian package has, and write nothing.") var printUnit = false

  func validate() throws {
    guard (certificate == nil) == (key == nil) else { throw ValidationError("--certificate and --key go together.") }
    for port in [clientPort, federationPort].compactMap(\.self) where !(1...65_535).contains(port) {
      throw ValidationError("A port is 1 to 65535.")
    }
  }

  private static var isRoot: Bool { geteuid() == 0 }

  func run() async throws {
    if printUnit { return print(SystemdUnit.packaged.text, terminator: "") }
    let questions = Questions(isAsking: !yes)
    if !yes, !questions.canAsk {
      throw CommandFailure("There is no terminal to ask at: give --yes, and --name, --host and what else differs.")
    }
    let folder = Self.absolute(self.folder ?? (Self.isRoot ? "/etc/relay" : "relay"))
    let data = self.data.map(Self.absolute) ?? (Self.isRoot ? "/var/lib/relay" : "\(folder)/data")
    guard InitSite.isFree("\(folder)/relay.yaml") else {
      throw CommandFailure(
        "\(folder)/relay.yaml is there already: nothing was written. Edit it, remove it, or give another --folder.")
    }
    let plan = try plan(questions, folder: folder, data: data)
    let owner = Self.isRoot ? InitSite.Owner(user) : nil
    let belongings: InitSite.Belongings
    do {
      belongings = try InitSite(plan: plan, owner: owner).write()
    } catch let faults as ConfigurationFaults {
      for fault in faults.faults { Output.note("error: \(fault)") }
      Output.note("Nothing was written: give other answers.")
      throw ExitCode(78)
    }
    show(plan, owner, belongings)
  }

  private func plan(_ questions: Questions, folder: String, data: String) throws -> InitPlan {
    let host = try questions.text(
      "Public host name, which clients and peers reach", given: host, otherwise: ProcessInfo.processInfo.hostName)
    let name = try questions.text(
      "Name of this relay, as peers know it", given: name,
      otherwise: host.split(separator: ".").first.map { $0.lowercased() } ?? "relay",
      fault: { RelayName($0) == nil ? "1 to 63 of a-z 0-9 - _ . beginning with a letter or digit." : nil })
    let certificate = try questions.optional(
      "PEM certificate chain for clients (empty: a proxy on this host ends TLS)", given: self.certificate)
    let key = certificate == nil ? nil : try questions.text("PEM key to it", given: self.key, otherwise: nil)
    var storage = try questions.text(
      "PostgreSQL URL, or sqlite for embedded stores", given: storage == "-" ? readLine() : storage, otherwise: "sqlite"
    )
    if storage == "sqlite" { storage = "sqlite:\(data)/relay.sqlite" }
    let redis =
      storage.hasPrefix("sqlite:")
      ? redis : try questions.optional("Redis URL (empty: one process, limits in its memory)", given: self.redis)
    let codes =
      try codes ?? InitPlan.Codes(
        rawValue: questions.text(
          "How codes reach people: log, webhook or twilio", given: nil, otherwise: "log",
          fault: { InitPlan.Codes(rawValue: $0) == nil ? "log, webhook or twilio." : nil })) ?? .log
    var plan = InitPlan(
      name: name, host: host, certificate: certificate.map(Self.absolute), key: key.map(Self.absolute),
      clientPort: clientPort ?? (certificate == nil ? 8080 : 443),
      federationPort: noPeers ? nil : federationPort, storage: storage, redis: redis, codes: codes, folder: folder,
      data: data)
    switch codes {
    case .log: break
    case .webhook:
      plan.webhookURL = try questions.text("URL that codes are posted to", given: webhookUrl, otherwise: nil)
    case .twilio:
      plan.twilioAccount = try questions.text("Twilio's account SID", given: twilioAccount, otherwise: nil)
      plan.twilioFrom = try questions.text("Number or service that codes come from", given: twilioFrom, otherwise: nil)
      plan.twilioTokenFile = try Self.absolute(
        questions.text("File with Twilio's auth token", given: twilioTokenFile, otherwise: nil))
    }
    return plan
  }

  private func show(_ plan: InitPlan, _ owner: InitSite.Owner?, _ belongings: InitSite.Belongings) {
    let unit = InitSite.hasPackagedUnit(plan) ? "" : ", relay.service"
    Output.line("Written to \(plan.folder): relay.yaml\(unit), and its secrets in files beside them.")
    if plan.federationPort != nil {
      Output.line("Keep a backup of \(plan.data)/federation/ca.key: peers know this relay by it.")
    }
    if plan.certificate == nil {
      Output.line("Have a proxy on this host pass https://\(plan.host) on to 127.0.0.1:\(plan.clientPort).")
    }
    Output.line("")
    Output.line("Next:")
    for command in commands(plan, owner, belongings) { Output.line("  \(command)") }
  }

  private func commands(_ plan: InitPlan, _ owner: InitSite.Owner?, _ belongings: InitSite.Belongings)
    -> [String]
  {
    let option = "--config \(plan.configurationFile)"
    guard Self.isRoot else { return ["relay check \(option)", "relay serve \(option)", "relay doctor \(option)"] }
    let enable = InitSite.hasPackagedUnit(plan) ? "systemctl restart relay" : "systemctl enable --now \(plan.unitFile)"
    guard owner == nil else { return ["relay check \(option)", enable, "relay doctor \(option)"] }
    let roots = belongings.whole.filter { path in !belongings.whole.contains { path.hasPrefix($0 + "/") } }
    return [
      "useradd --system --user-group --home-dir \(plan.data) --shell /usr/sbin/nologin \(user)",
      "chown \(user): \(belongings.alone.joined(separator: " ")) && "
        + "chown -R \(user): \(roots.joined(separator: " "))",
      enable, "relay doctor \(option)",
    ]
  }

  private static func absolute(_ path: String) -> String { URL(fileURLWithPath: path).standardizedFileURL.path }
}

extension InitPlan.Codes: ExpressibleByArgument {}
