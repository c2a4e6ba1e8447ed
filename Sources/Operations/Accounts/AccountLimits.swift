package import RelayCore

/// One bucket of an account.
package struct LimitRow: Encodable, Sendable {
  /// As in the configuration: `limits.NAME`.
  package let limiter: String
  /// Which of the account's buckets of that name: `account`, `device N`, `linking`, `strangers` (who have not asked
  /// for the number's code), `linking, strangers`.
  package let of: String
  /// Charges that fit in it just now, and in the empty bucket.
  package let free: Double
  package let size: Double
  package let perMinute: Double
  package var isTouched: Bool { free < size }
}

/// The buckets that limit what an account does and what is done to it. Buckets by client address and by pairs of
/// accounts are not among them: they are others' too. So `messages` is what linking devices is charged: a message is
/// charged to its pair of accounts.
package struct AccountLimits: Sendable {
  private let limiter: any RateLimiter

  package init(limiter: any RateLimiter) { self.limiter = limiter }

  package func rows(of number: AccountNumber, devices: [DeviceID]) async -> [LimitRow] {
    var rows: [LimitRow] = []
    for bucket in Self.buckets(of: number, devices) {
      let shape = limiter.shape(of: bucket.limiter)
      rows.append(
        LimitRow(
          limiter: bucket.limiter.rawValue, of: bucket.of,
          free: await limiter.space(in: bucket.limiter, key: bucket.key), size: shape.size, perMinute: shape.perMinute))
    }
    return rows
  }

  /// Makes every bucket as if it had never been charged.
  package func reset(of number: AccountNumber, devices: [DeviceID]) async {
    for bucket in Self.buckets(of: number, devices) {
      let size = limiter.shape(of: bucket.limiter).size
      _ = await limiter.take(-size, from: bucket.limiter, key: bucket.key)
    }
  }

  private typealias AccountBucket = (limiter: LimiterName, of: String, key: LimitKey)

  private static func buckets(of number: AccountNumber, _ devices: [DeviceID]) -> [AccountBucket] {
    let (account, linking) = (LimitKey(number), LimitKey(linkingTo: number))
    return byAccount.map { ($0, "account", account) } + byCode.map { ($0, "account", account) }
      + byCode.map { ($0, "linking", linking) }
      + byWrongCode.map { ($0, "strangers", account.byStrangers) }
      + byWrongCode.map { ($0, "linking, strangers", linking.byStrangers) }
      + devices.flatMap { device in
        byDevice.map { ($0, "device \(device.value)", LimitKey(DeviceAddress(number, device))) }
      }
  }

  private static let byAccount: [LimiterName] = [
    .smsDestination, .voiceDestination, .verifyNumber, .verifyDevice, .allocateDevice, .registrationLock, .messages,
    .receipts, .accountChanges, .attachments, .contactQueries, .obliviousElements, .obliviousPages,
  ]
  private static let byWrongCode: [LimiterName] = [.wrongCodesHour, .wrongCodesDay]
  private static let byCode: [LimiterName] = [.codesDay] + byWrongCode
  private static let byDevice: [LimiterName] = [.preKeysTarget, .registrationLock]
}
