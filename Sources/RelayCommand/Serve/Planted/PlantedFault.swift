// Faults that a debug build can be told to have, so that what looks for faults can be shown to find them. A release
// build has neither this code nor the variable (Package.swift, `plantable`; docs/reliability.md).

import RelayCore

#if PLANTED_FAULTS
  import Foundation

  /// The defect of the process, as `PLANTED_FAULT` says.
  enum PlantedFault: String, CaseIterable {
    /// One of twenty messages is accepted and not stored.
    case messageLost = "message-lost"
    /// One of twenty messages is delivered with another body.
    case bodyAltered = "body-altered"
    /// One of five messages is stored some seconds after it was accepted, behind what came later.
    case orderBroken = "order-broken"
    /// One of four draws gives out what the last one of that account gave out.
    case keyTwice = "key-twice"
    /// A connection is not told that another process holds a newer one.
    case twoConnections = "two-connections"
    /// Nothing is read for one of five devices.
    case deviceDeaf = "device-deaf"
    /// One of three receipts is dropped, and not counted.
    case receiptLost = "receipt-lost"
    /// One of twenty messages is told as received, and stored only then.
    case receiptForged = "receipt-forged"
    /// Limiters refuse nothing.
    case limitIgnored = "limit-ignored"
    /// Each message that is stored leaves a descriptor open.
    case descriptorsLeak = "descriptors-leak"
    /// No device is woken by push.
    case deviceUnwoken = "device-unwoken"
    /// Messages that the store could not take are accepted all the same.
    case outageForgotten = "outage-forgotten"
    /// The process ends by itself when it has stored a hundred messages.
    case processDies = "process-dies"

    static let chosen = ProcessInfo.processInfo.environment["PLANTED_FAULT"].flatMap(Self.init)
  }
#endif

/// The contracts of a store as the features are given them: the store itself, or, in a debug build that was told so, a
/// wrapper with a fault. A feature must not be given the store itself for these two.
extension Storage {
  var servedMessages: any MessageStore {
    #if PLANTED_FAULTS
      if let fault = PlantedFault.chosen { return PlantedMessages(self, fault) }
    #endif
    return self
  }

  var servedPreKeys: any PreKeyStore {
    #if PLANTED_FAULTS
      if PlantedFault.chosen == .keyTwice { return PlantedPreKeys(self) }
    #endif
    return self
  }
}

extension WakingGraph {
  /// Whether anybody works on what devices are to be woken for: always, but for a planted fault.
  static var hasWorkers: Bool {
    #if PLANTED_FAULTS
      return PlantedFault.chosen != .deviceUnwoken
    #else
      return true
    #endif
  }
}

extension Coordination {
  var servedLimiter: any RateLimiter {
    #if PLANTED_FAULTS
      if PlantedFault.chosen == .limitIgnored { return PlantedLimiter() }
    #endif
    return self
  }

  var servedPresence: any Presence {
    #if PLANTED_FAULTS
      if PlantedFault.chosen == .twoConnections { return PlantedPresence(self) }
    #endif
    return self
  }
}
