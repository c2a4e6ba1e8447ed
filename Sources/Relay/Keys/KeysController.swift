package import Hummingbird
package import RelayCore
package import RelayHTTP

/// Prekeys of versions 1 and 2 (reference 1.6, 1.7): two shapes of one supply.
package struct KeysController: Sendable {
  private let store: any PreKeyStore & AccountStore
  private let accounts: AccountCache
  private let local: any PreKeyDispenser
  private let courier: any Courier
  private let homes: any HomeFinder
  private let limiter: any RateLimiter
  private let gate: CorrespondenceGate
  private let verifiesSignatures: Bool

  /// - Parameter verifiesSignatures: refuses signed prekeys that the account's identity key did not sign.
  package init(
    store: any PreKeyStore & AccountStore, accounts: AccountCache, local: any PreKeyDispenser, courier: any Courier,
    homes: any HomeFinder, limiter: any RateLimiter, gate: CorrespondenceGate, verifiesSignatures: Bool
  ) {
    self.store = store
    self.accounts = accounts
    self.local = local
    self.courier = courier
    self.homes = homes
    self.limiter = limiter
    self.gate = gate
    self.verifiesSignatures = verifiesSignatures
  }

  package func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/keys", [(.put, uploadV1), (.get, count)])
    router.resource("/v1/keys/:number", [(.get, drawOne)])
    router.resource("/v1/keys/:number/:device", [(.get, drawV1)])
    router.resource("/v2/keys", [(.put, uploadV2), (.get, count)])
    router.resource("/v2/keys/signed", [(.put, replaceSigned), (.get, signed)])
    router.resource("/v2/keys/:number/:device", [(.get, drawV2)])
  }
}

// MARK: - The caller's own keys

extension KeysController {
  @Sendable private func uploadV1(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let body = try await context.jsonBody(of: request, max: WireLimits.preKeyRequestBytesMax)
    return try await upload(try body.decodeJSON(PreKeyCodec.decodeUpload), context)
  }

  @Sendable private func uploadV2(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let body = try await context.jsonBody(of: request, max: WireLimits.preKeyRequestBytesMax)
    return try await upload(try body.decodeJSON(PreKeyCodec.decodeUploadV2), context)
  }

  private func upload(_ upload: PreKeyUpload, _ context: DeviceContext) async throws(Problem) -> Response {
    if let key = upload.signedPreKey { try verify(key, against: upload.identityKey) }
    let address = context.caller.address
    try await limiter.charge(.accountChanges, LimitKey(address.account))
    let outcome = try await changing(address.account) { () throws(StoreError) in
      try await store.replacePreKeys(of: address, with: upload)
    }
    switch outcome {
    case .stored: return .done
    // The device was removed since it proved itself.
    case .noDevice: throw Problem(.unauthorized)
    case .identityRefused: throw Problem(.identityRefused)
    }
  }

  @Sendable private func count(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    do throws(StoreError) {
      return .json(PreKeyCodec.encode(count: try await store.preKeyCount(of: context.caller.address)))
    } catch {
      throw Problem(error)
    }
  }

  @Sendable private func replaceSigned(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let body = try await context.jsonBody(of: request, max: WireLimits.smallRequestBytesMax)
    let key = try body.decodeJSON(PreKeyCodec.decodeSigned)
    let address = context.caller.address
    let identityKey = try await identityKey(of: address)
    try verify(key, against: identityKey)
    try await limiter.charge(.accountChanges, LimitKey(address.account))
    let isStored = try await changing(address.account) { () throws(StoreError) in
      try await store.setSignedPreKey(key, of: address, identityKey: identityKey)
    }
    guard isStored else {
      // The device is gone, or the account has another identity key by now.
      _ = try await self.identityKey(of: address)
      throw Problem(.signatureRefused)
    }
    return .done
  }

  @Sendable private func signed(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let key: SignedPreKey?
    do throws(StoreError) {
      key = try await store.signedPreKey(of: context.caller.address)
    } catch {
      throw Problem(error)
    }
    guard let key else { throw Problem(.notFound) }
    return .json(PreKeyCodec.encode(key))
  }

  /// Read from the store: an upload through another process may have changed it this moment.
  /// - Throws: `.unauthorized` when the device was removed since it proved itself; `.signatureRefused` when there is no
  ///   identity key yet that could have signed anything.
  private func identityKey(of device: DeviceAddress) async throws(Problem) -> String {
    let account: Account?
    do throws(StoreError) {
      account = try await store.account(device.account)
    } catch {
      throw Problem(error)
    }
    guard let account, account.devices.contains(where: { $0.id == device.device }) else { throw Problem(.unauthorized) }
    guard let identityKey = account.identityKey else { throw Problem(.signatureRefused) }
    return identityKey
  }

  private func verify(_ key: SignedPreKey, against identityKey: String) throws(Problem) {
    guard !verifiesSignatures || key.isSigned(by: identityKey) else { throw Problem(.signatureRefused) }
  }

  /// Runs `change`, after which nobody may go by what was cached of the account: a commit whose answer was lost may
  /// have changed it all the same.
  private func changing<Value: Sendable>(
    _ number: AccountNumber, _ change: () async throws(StoreError) -> Value
  ) async throws(Problem) -> Value {
    let result: Result<Value, StoreError>
    do throws(StoreError) {
      result = .success(try await change())
    } catch {
      result = .failure(error)
    }
    await accounts.changed(number)
    do throws(StoreError) {
      return try result.get()
    } catch {
      throw Problem(error)
    }
  }
}

// MARK: - Other people's keys

extension KeysController {
  /// One bare object, of device 1.
  @Sendable private func drawOne(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let drawn = try await draw(request, context, .one(.master), .one)
    guard let key = drawn.first else { throw Problem(.notFound) }
    return .json(PreKeyCodec.encode(key, withDevice: true))
  }

  @Sendable private func drawV1(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    .json(PreKeyCodec.encode(try await draw(request, context, try context.selector(), .one)))
  }

  @Sendable private func drawV2(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    .json(PreKeyCodec.encodeV2(try await draw(request, context, try context.selector(), .two)))
  }

  private func draw(
    _ request: Request, _ context: DeviceContext, _ selector: DeviceSelector, _ version: PreKeyVersion
  ) async throws(Problem) -> [DrawnPreKey] {
    let number = try context.number("number")
    let (account, relay) = (context.caller.address.account, try request.relay())
    let charge = LimitCharge(1, from: .preKeys, key: LimitKey(account, number, selector))
    return try await gate.reach(number, by: account) { () async throws(Problem) in
      guard let relay = try await homes.relay(for: number, named: relay) else {
        return try await local.draw(from: number, devices: selector, version: version) { cost throws(Problem) in
          try await limiter.charge([charge], thenEach: cost.targets)
        }
      }
      try await limiter.charge([charge])
      return try await courier.preKeys(of: number, devices: selector, version: version, at: relay)
    }
  }
}

extension DeviceContext {
  fileprivate func selector() throws(Problem) -> DeviceSelector { try DeviceSelector(text: try segment("device")) }
}
