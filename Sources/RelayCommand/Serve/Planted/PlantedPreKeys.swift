#if PLANTED_FAULTS
  import RelayCore
  import Synchronization

  /// A store of prekeys that now and then gives out again what it gave out before.
  final class PlantedPreKeys: PreKeyStore {
    private let store: any PreKeyStore
    private let last = Mutex<(count: Int, drawn: [AccountNumber: [DrawnPreKey]])>((0, [:]))

    init(_ store: any PreKeyStore) { self.store = store }

    func drawPreKeys(of account: AccountNumber, devices: [DeviceID], oneTime: [DeviceID], epoch: Int64)
      async throws(StoreError) -> [DrawnPreKey]
    {
      let again = last.withLock { last in
        last.count += 1
        return last.count % 4 == 0 ? last.drawn[account] : nil
      }
      if let again { return again }
      let drawn = try await store.drawPreKeys(of: account, devices: devices, oneTime: oneTime, epoch: epoch)
      last.withLock { $0.drawn[account] = drawn }
      return drawn
    }

    func replacePreKeys(of device: DeviceAddress, with upload: PreKeyUpload) async throws(StoreError)
      -> PreKeyUploadOutcome
    {
      try await store.replacePreKeys(of: device, with: upload)
    }
    func setSignedPreKey(_ key: SignedPreKey, of device: DeviceAddress, identityKey: String) async throws(StoreError)
      -> Bool
    {
      try await store.setSignedPreKey(key, of: device, identityKey: identityKey)
    }
    func signedPreKey(of device: DeviceAddress) async throws(StoreError) -> SignedPreKey? {
      try await store.signedPreKey(of: device)
    }
    func preKeyCount(of device: DeviceAddress) async throws(StoreError) -> Int {
      try await store.preKeyCount(of: device)
    }
  }
#endif
