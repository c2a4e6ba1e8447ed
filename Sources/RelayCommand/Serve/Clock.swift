import FoundationEssentials
import RelayCore

extension WallClock {
  /// The system's clock.
  static let system = WallClock {
    Timestamp(millis: Int64((Date().timeIntervalSince1970 * 1000).rounded(.down)))
  }
}
