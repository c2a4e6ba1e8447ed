import Logging
import RelayConfiguration
import RelayCore
import RelayWork
import ServiceLifecycle
import Storage

/// Holds the store against the configured encryption keys, and brings it from the former key to the current one
/// (docs/configuration.md, "The encryption key").
///
/// A sample in the store stands for all its secrets. It goes over to the current key last, so that a process that lacks
/// the former one too early does not start. The key of contact tokens goes with the first devices.
struct EncryptionKeys: Service {
  private let store: any ServerSecretStore & ContactSealingStore
  private let sealer: SecretSealer
  private let logger: Logger
  /// Whether secrets may have to be sealed anew: then it is run as long as the relay is.
  let isChanging: Bool

  init(_ settings: RelayConfiguration.Storage, store: any ServerSecretStore & ContactSealingStore, logger: Logger) {
    self.store = store
    self.logger = logger
    sealer = SecretSealer(current: settings.encryptionKey, former: settings.formerEncryptionKey)
    isChanging = settings.formerEncryptionKey != nil
  }

  /// Refuses to serve a store without the key that its secrets are sealed under: it would show only when somebody's
  /// signaling key is needed. Says so when they are not sealed at all.
  func check() async throws {
    try await checkSecrets()
    try await checkContacts()
  }

  /// Refuses a store without the key that its secrets are sealed under.
  func checkSecrets() async throws {
    guard sealer.isSealing, let nobody = Self.nobody else {
      guard try await store.serverSecret(Self.sampleName) == nil else {
        throw CommandFailure(
          "This store's secrets are sealed under an encryption key, and none is configured. Set storage.encryption-key "
            + "to it.")
      }
      return logger.warning(
        "signaling keys are stored as they are, and contact tokens: set storage.encryption-key (openssl rand -base64 32)"
      )
    }
    let sample = try await store.serverSecret(Self.sampleName, orStore: try sealer.seal(Secret("relay"), of: nobody))
    do throws(StoreError) {
      _ = try sealer.open(sample, of: nobody)
    } catch {
      throw CommandFailure(
        "storage.encryption-key is not the key that this store's secrets are sealed under. Set that one, or keep it as "
          + "storage.encryption-key-former until the log says that it can be removed.")
    }
  }

  /// Refuses to serve a store whose contact tokens cannot be read, or not all of them.
  private func checkContacts() async throws {
    switch try await store.contactSealing() {
    case .sealed: return
    case .plain:
      // The Debian package serves before its operator has set a key.
      guard sealer.isSealing, try await !store.sealIfEmpty() else { return }
      logger.warning(
        "contact tokens are stored as they were before storage.encryption-key: relay storage seal-contacts seals them")
    case .underWay: throw CommandFailure(ContactSealing.underWayRemedy)
    case .locked: throw CommandFailure(ContactSealing.lockedRemedy)
    }
  }

  /// Again and again: processes that have not got the new key yet go on sealing under the former one.
  func run() async throws {
    await cancelWhenGracefulShutdown {
      for await _ in Periodic(every: Self.interval) { await resealAll() }
    }
  }

  private func resealAll() async {
    do throws(StoreError) {
      var (count, last): (Int, DeviceAddress?) = (0, nil)
      repeat {
        let step = try await store.resealSecrets(after: last, limit: Self.stepDevicesMax)
        count += step.count
        last = step.last
      } while last != nil && !Task.isCancelled
      guard !Task.isCancelled else { return }
      try await resealSample()
      logger.notice(
        "secrets are sealed under storage.encryption-key: where every process has it, the former key can be removed",
        metadata: ["resealed": "\(count)"])
    } catch {
      guard !Task.isCancelled else { return }
      logger.warning("sealing secrets anew failed, it will be tried again", metadata: ["error": "\(error)"])
    }
  }

  private func resealSample() async throws(StoreError) {
    guard let nobody = Self.nobody, let sample = try await store.serverSecret(Self.sampleName),
      let resealed = try sealer.resealed(sample, of: nobody)
    else { return }
    // False when another process was faster.
    _ = try await store.replaceServerSecret(Self.sampleName, sample, with: resealed)
  }

  private static let sampleName = "encryption-check"
  private static let nobody = AccountNumber(digits: 1)
  private static let interval = Duration.seconds(3600)
  private static let stepDevicesMax = 200
}
