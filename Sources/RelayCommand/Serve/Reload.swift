import Logging
import RelayConfiguration
import RelayCore
import ServiceLifecycle
import UnixSignals

/// Reads the configuration anew on SIGHUP: applies the keys that can change while the process serves, and logs the
/// names of those that need a restart.
///
/// A configuration with faults changes nothing. Files of certificates and keys reload by themselves, every two
/// seconds.
struct Reload: Service {
  private let hangUps: UnixSignalsSequence
  private let started: LoadedConfiguration
  private let present: LiveSetting<LoadedConfiguration>
  private let limits: any Coordination
  private let logger: Logger
  private let read: @Sendable () throws(ConfigurationFaults) -> LoadedConfiguration

  /// - Parameters:
  ///   - hangUps: SIGHUP, trapped since the process began, so that an early signal waits.
  ///   - present: the configuration in force, replaced here; at first the one that the process was started with.
  ///   - limits: takes the new `limits.*`.
  init(
    on hangUps: UnixSignalsSequence, changing present: LiveSetting<LoadedConfiguration>, limits: any Coordination,
    logger: Logger, read: @escaping @Sendable () throws(ConfigurationFaults) -> LoadedConfiguration
  ) {
    self.hangUps = hangUps
    self.present = present
    self.limits = limits
    self.logger = logger
    self.read = read
    started = present.value
  }

  func run() async throws {
    for await _ in hangUps.cancelOnGracefulShutdown() {
      do throws(ConfigurationFaults) {
        take(try read())
      } catch {
        let faults = error.faults.prefix(Self.faultsShown).map { Logger.MetadataValue.string("\($0)") }
        logger.error(
          "the configuration has faults: what was in force stays in force",
          metadata: ["faults": .array(faults), "count": "\(error.faults.count)"])
      }
    }
  }

  private func take(_ next: LoadedConfiguration) {
    let (settings, former) = (next.configuration, present.value)
    let changed = next.changes(since: former).filter { isLive($0, settings) }
    let waiting = next.changes(since: started).filter { !isLive($0, settings) }
    present.replace(by: next)
    limits.setLimits(settings.limits)
    LogOutput.setLevel(settings.log.level)
    for warning in next.warnings where !former.warnings.contains(warning) { logger.warning("\(warning)") }
    logger.notice("configuration read anew", metadata: ["changed": Self.names(changed)])
    if !waiting.isEmpty {
      logger.warning(
        "changes of the configuration that need a restart are not in force", metadata: ["keys": Self.names(waiting)])
    }
  }

  /// Whether a change of `key` needs no restart.
  private func isLive(_ key: ConfigurationKey, _ settings: RelayConfiguration) -> Bool {
    switch key.taking {
    case .onReload: true
    case .onConnection(let isRead): isRead(started.configuration, settings)
    case .onRestart: false
    }
  }

  private static func names(_ keys: [ConfigurationKey]) -> Logger.MetadataValue {
    .string(keys.isEmpty ? "nothing" : keys.map(\.name).joined(separator: ", "))
  }

  private static let faultsShown = 5
}
