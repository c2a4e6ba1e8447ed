package import RelayCore

/// How this relay wakes its own devices (docs/waking.md).
package struct WakingSettings: Sendable {
  package let served: ServedProviders
  /// How long after it was last asked for a device may still be woken.
  package let lifetime: Duration
  /// Whether a message that waits alone goes with the push, encrypted; else the provider learns nothing but the time.
  package var sendsContent = false
  /// A device that was woken is not woken again for so long, unless it connects meanwhile.
  package var pause = Duration.seconds(10)
  /// For so long the store remembers that a device was woken: longer than a message takes to be seen by the sweep.
  package var memory = Duration.seconds(300)
  /// The time in which a device has to follow a VoIP push before an ordinary one is sent.
  package var callPatience = Duration.seconds(30)
  /// If it is unknown whether a device is connected, the device has this long to show that it is.
  package var doubt = Duration.seconds(5)
  /// A process that died with a job in its hands delays it by this. One that takes longer renews its claim meanwhile.
  package var claim = Duration.seconds(20)
  package var attempt = Duration.seconds(25)
  /// How often a process looks for what others have asked for.
  package var poll = Duration.seconds(2)
  package var sweep = Duration.seconds(30)
  /// Jobs of one provider in the hands of a process.
  package var claimedMax = 200
  package var backOff = WakeBackOff()

  package init(through served: ServedProviders, lifetime: Duration) {
    self.served = served
    self.lifetime = lifetime
  }

  var terms: WakeTerms { served.terms(lifetime: lifetime) }
}

/// How long after a failure a device is tried again: longer after each, within bounds, and never at the same moment as
/// others that failed with it.
package struct WakeBackOff: Sendable {
  package var first = Duration.seconds(5)
  package var max = Duration.seconds(300)
  package var haltedMax = Duration.seconds(30)
  package init() {}

  /// - Parameters:
  ///   - attempt: the one that failed, from 1.
  ///   - asked: what the provider asks for: never less.
  ///   - spread: 0 to 1, drawn at random.
  package func wait(after attempt: Int, asked: Duration?, spread: Double) -> Duration {
    let doublings = Swift.min(Swift.max(attempt - 1, 0), 16)
    let wait = Swift.min(first * (1 << doublings), max)
    return Swift.max(wait * (0.8 + 0.4 * spread), asked ?? .zero)
  }

  /// The wait of a push that the lane kept back for a service in trouble. One job at a time is claimed of other
  /// providers then. Jobs of WebPush are all claimed, and come back rarer the longer they have waited: devices of a
  /// service that is down would else be claimed again and again.
  /// - Parameters:
  ///   - asked: until the lane lets one through.
  ///   - age: of the wish to wake the device.
  package func waitWhileHalted(of provider: WakeProvider, asked: Duration?, age: Duration) -> Duration {
    let least = Swift.max(asked ?? .zero, .seconds(1))
    return provider == .webPush ? Swift.max(least, Swift.min(age / 2, haltedMax)) : least
  }
}
