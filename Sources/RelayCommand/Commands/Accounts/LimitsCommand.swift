import ArgumentParser
import Foundation
import Logging
import Operations
import RelayConfiguration
import RelayCore
import RelayWork

struct AccountLimitsCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "limits", abstract: "Show what an account has used up of its limits, or give it back.",
    discussion: """
      FREE is how many charges fit just now. Without --all only limits are shown that are used in part. --reset gives all of \
      them back: for somebody who was refused by mistake. Limits by client address and by pairs of accounts are not \
      among them. They live in Redis: where coordination.url is local, ask the operator API of the running process.
      """)
  @OptionGroup var configuration: ConfigurationOption
  @OptionGroup var account: AccountArgument
  @Flag(help: "Give back what was charged.") var reset = false
  @Flag(help: "Show limits that are not touched too.") var all = false
  @Flag(help: "Print JSON, of all limits.") var json = false

  func run() async throws {
    let reference = try account.read()
    let settings = try configuration.load().configuration
    LogOutput.bootstrap(settings.log)
    guard settings.isShared else {
      throw CommandFailure(
        "coordination.url is local: the limits are in the memory of the running process. Ask it: GET "
          + "/api/v1/accounts/ACCOUNT/limits of the operator API (docs/operating.md), or set coordination.url to Redis."
      )
    }
    try await withStorage(settings) { storage in
      let number = try await reference.number(of: storage)
      let devices = try await storage.account(number)?.devices.map(\.id) ?? []
      try await withCoordination(settings) { coordination in
        let limits = AccountLimits(limiter: coordination)
        if reset {
          try await storage.noting(AuditNote("accounts limits --reset", on: .account(number))) {
            await limits.reset(of: number, devices: devices)
          }
        }
        try show(await limits.rows(of: number, devices: devices))
      }
    }
  }

  private func show(_ rows: [LimitRow]) throws {
    if json { return try Output.json(rows) }
    let shown = all ? rows : rows.filter(\.isTouched)
    if shown.isEmpty { return Output.line("No limit of this account is touched.") }
    Output.table(
      [["LIMIT", "OF", "FREE", "SIZE", "PER MINUTE"]]
        + shown.map { [$0.limiter, $0.of, Self.figure($0.free), Self.figure($0.size), Self.figure($0.perMinute)] })
  }

  private static func figure(_ value: Double) -> String {
    value == value.rounded() ? String(Int(value)) : String(format: "%.1f", value)
  }

  /// - Throws: `CommandFailure` where Redis does not answer: what this process counts by itself is nobody's limit.
  private func withCoordination(
    _ settings: RelayConfiguration, _ body: (any Coordination) async throws -> Void
  ) async throws {
    let coordination = try openCoordination(settings, logger: Logger(label: "relay.coordination"))
    do {
      await Pause.poll(every: .milliseconds(20), until: .now + Self.patience) {
        await coordination.degradation() == nil
      }
      if let reason = await coordination.degradation() {
        throw CommandFailure("Redis does not answer: \(reason). Start it, or correct coordination.url.")
      }
      try await body(coordination)
    } catch {
      await coordination.close()
      throw error
    }
    await coordination.close()
  }

  private static let patience = Duration.seconds(5)
}
