import ArgumentParser
import Foundation
import Logging
import RelayConfiguration
import RelayCore

struct DoctorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract: "Look at everything that this relay stands on, and name each fault's remedy.",
    discussion: """
      Looks at the configuration, the stores and their schema, clocks, certificates, ports, parts of the directory, attachments, the outbox, the way \
      to every peer, and what pushes go out by; changes nothing, unless --messages is given. Everything is looked at, each for 10 s at most, side \
      by side. Run it while `relay serve` runs. Exits with 0 when nothing failed, warnings or not, with 1 when something \
      did, with 78 when the configuration is faulty.
      """)

  @OptionGroup var configuration: ConfigurationOption
  @Flag(help: "Draw a key from each peer's probe account, and send it a message.") var messages = false
  @Flag(help: "Print JSON.") var json = false

  func run() async throws {
    let loaded: LoadedConfiguration
    do {
      loaded = try RelayConfiguration.load(
        file: configuration.config, environment: ProcessInfo.processInfo.environment, readers: .relay)
    } catch {
      try show(error.faults.map(Self.diagnosis))
      throw ExitCode(78)
    }
    let site = await DoctorSite(loaded.configuration)
    let diagnoses = await Self.run(checks(loaded, site))
    await site.close()
    try show(diagnoses)
    if diagnoses.contains(where: { $0.outcome == Finding.Outcome.fail.rawValue }) { throw ExitCode.failure }
  }

  /// In the order in which they are shown.
  private func checks(_ loaded: LoadedConfiguration, _ site: DoctorSite) -> [DoctorCheck] {
    ConfigurationChecks(loaded).all + StorageChecks(site).all + RestoreChecks(site).all + CoordinationChecks(site).all
      + ClockChecks(site).all
      + CertificateChecks(site).all + PortChecks(site).all + PartChecks(site).all + AttachmentChecks(site).all
      + OutboxChecks(site).all
      + PeerChecks(site, sendsMessages: messages).all + DeliveryChecks(site).all + PushChecks(site).all
  }

  /// Side by side. - Returns: the diagnoses in the order of `checks`.
  private static func run(_ checks: [DoctorCheck]) async -> [Diagnosis] {
    await withTaskGroup(of: (Int, [Diagnosis]).self) { group in
      for (index, check) in checks.enumerated() { group.addTask { (index, await check.run()) } }
      var found: [[Diagnosis]] = Array(repeating: [], count: checks.count)
      for await (index, diagnoses) in group { found[index] = diagnoses }
      return found.flatMap(\.self)
    }
  }

  private static func diagnosis(_ fault: ConfigurationFault) -> Diagnosis {
    Diagnosis(
      group: .configuration, check: "fault",
      finding: .failed(fault.description, remedy: "docs/configuration.md lists every key."), duration: .zero)
  }

  private func show(_ diagnoses: [Diagnosis]) throws {
    if json { return try Output.json(diagnoses) }
    for diagnosis in diagnoses {
      let mark = diagnosis.outcome == Finding.Outcome.fail.rawValue ? "FAIL" : diagnosis.outcome.padding(to: 4)
      Output.line("\(mark)  \(diagnosis.group.padding(to: 13))  \(diagnosis.check): \(diagnosis.text)")
      if let remedy = diagnosis.remedy { Output.line("                     \(remedy)") }
    }
    func count(_ outcome: Finding.Outcome) -> Int { diagnoses.count { $0.outcome == outcome.rawValue } }
    Output.note("\(count(.ok)) ok, \(count(.warn)) warnings, \(count(.fail)) failed, \(count(.skip)) skipped.")
  }
}
