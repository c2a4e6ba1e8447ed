import ArgumentParser
import Federation
import RelayConfiguration
import RelayCore

struct CheckCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check",
    abstract: "Validate the configuration and print what holds, secrets hidden.",
    discussion: "Reports every fault in one pass. Exits with 78 when there is one.")

  @OptionGroup var configuration: ConfigurationOption
  @Flag(help: "Print JSON.") var json = false

  private struct Setting: Encodable {
    let key: String
    let value: String?
    let origin: String
    let place: String?
  }

  func run() async throws {
    let loaded = try configuration.load(warns: true)
    try checkCertificates(loaded.configuration)
    if json {
      return try Output.json(
        loaded.effective.map {
          Setting(key: $0.key, value: $0.value, origin: $0.origin.rawValue, place: $0.place?.description)
        })
    }
    Output.table(loaded.effective.map { [$0.key, $0.value ?? "-", $0.place?.description ?? $0.origin.rawValue] })
  }

  /// Clients refuse what has ended, and the relay that cannot read it does not start.
  private func checkCertificates(_ settings: RelayConfiguration) throws {
    let listeners = [
      ("client.tls", settings.client.tls), ("device-notifications.tls", settings.deviceNotifications.tls),
      ("directory.tls", settings.directory.tls),
    ]
    var faults: [String] = []
    for case (let keys, let tls?) in listeners {
      do throws(ServerCertificate.Fault) {
        let end = try ServerCertificate.read(tls, keys: keys).leaf.validUntil
        if end < .now { faults.append("\(keys).certificate: \(tls.certificate) ended \(end.iso8601): renew it") }
      } catch {
        faults.append("\(error.text) \(error.remedy)")
      }
    }
    guard !faults.isEmpty else { return }
    for fault in faults { Output.note("error: \(fault)") }
    throw ExitCode(78)
  }
}
