import RelayConfiguration
import RelayCore

/// Settings that are valid and yet risky.
struct ConfigurationChecks {
  private let loaded: LoadedConfiguration
  private var settings: RelayConfiguration { loaded.configuration }

  init(_ loaded: LoadedConfiguration) { self.loaded = loaded }

  var all: [DoctorCheck] {
    let findings = [valid] + warnings + [encryption, limits].compactMap(\.self)
    return [DoctorCheck(group: .configuration, name: "settings") { findings }]
  }

  private var valid: Finding { .ok("\(loaded.effective.count) settings, none of them faulty").named("valid") }

  /// As every command prints them.
  private var warnings: [Finding] {
    loaded.warnings.map {
      .warned($0.description, remedy: "Change it, or leave it if it is meant: docs/configuration.md says more.")
        .named("setting")
    }
  }

  private var encryption: Finding {
    guard settings.storage.encryptionKey == nil else {
      return .ok("secrets are sealed in the store").named("encryption")
    }
    return .warned(
      "signaling keys are stored as they are",
      remedy: "Set storage.encryption-key, for example to the output of `openssl rand -base64 32`."
    ).named("encryption")
  }

  /// Checks the limits that keep codes and pins from being guessed, and text messages from being sent without end.
  private var limits: Finding {
    let guards: [LimiterName] = [
      .smsDestination, .voiceDestination, .verifyNumber, .verifyDevice, .registrationLock, .codesDay, .wrongCodesHour,
      .wrongCodesDay, .wrongCodesAddress,
    ]
    let wide = guards.filter { name in
      guard let bucket = settings.limits[name] else { return false }
      return bucket.size > Self.factor * name.defaultBucket.size
        || bucket.perMinute > Self.factor * name.defaultBucket.perMinute
    }
    guard !wide.isEmpty else { return .ok("codes cannot be guessed").named("limits") }
    return .warned(
      "more than \(Int(Self.factor)) times the default: \(wide.map(\.rawValue).joined(separator: ", "))",
      remedy: "Lower limits.\(wide[0].rawValue): with so many tries codes can be guessed, or sent at your expense."
    ).named("limits")
  }

  private static let factor = 10.0
}
