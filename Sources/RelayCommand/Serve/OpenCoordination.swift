import Logging
import RelayConfiguration
import RelayCore
import Storage

/// Connects in the background; until Redis answers, and whenever it does not, each process limits by itself.
func openCoordination(_ settings: RelayConfiguration, logger: Logger) throws -> any Coordination {
  switch settings.coordination.location {
  case .local: return LocalCoordination(buckets: settings.limits, clock: .system)
  case .redis(let endpoint):
    do throws(StoreError) {
      return try RedisCoordination(
        endpoint, buckets: settings.limits, leased: leasedLimiters, prefix: "relay:\(settings.name):", clock: .system,
        logger: logger
      ) { [coordination = settings.coordination] in coordination.presentEndpoint }
    } catch {
      // The error of a file that cannot be used names the key itself.
      if endpoint.tls != nil, case .unavailable(let reason) = error { throw CommandFailure(reason) }
      throw CommandFailure("coordination.url: \(error)")
    }
  }
}

/// Every message, or each look-up, is charged to these limiters, and one more or less does no harm there. The budget of
/// different contacts bounds what look-ups tell, and it is exact.
private let leasedLimiters: Set<LimiterName> = [
  .messages, .messagesWaited, .receipts, .contactQueries, .peerRequests, .peerRecipients, .peerReceipts, .peerBytes,
  .peerTokens,
]
