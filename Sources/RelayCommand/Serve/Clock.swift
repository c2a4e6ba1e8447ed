import Glibc
import RelayCore

extension WallClock {
  /// The system's clock.
  static let system = WallClock {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(millis: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
  }
}
