import Glibc

/// How many files, sockets among them, a process may have open.
enum OpenFiles {
  /// Lets this process, and those that it starts from now on, have `count` open.
  /// - Throws: `BenchmarkFailure`, with what to do, when the system does not allow it.
  static func allow(_ count: Int) throws(BenchmarkFailure) {
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    guard getrlimit(resource, &limit) == 0 else { throw BenchmarkFailure("the limit of open files cannot be read") }
    let (needed, allowed) = (rlim_t(count), limit.rlim_max)
    guard limit.rlim_cur < needed else { return }
    limit.rlim_cur = needed
    // Only with the right to raise it does a process get beyond the second one.
    limit.rlim_max = max(allowed, needed)
    guard setrlimit(resource, &limit) == 0 else {
      throw BenchmarkFailure(
        "\(count) open files are needed, and at most \(allowed) are allowed here: raise the limit before "
          + "(`ulimit -n \(count)` as root, or `nofile` in /etc/security/limits.conf), or measure fewer connections "
          + "(--connections-idle)")
    }
  }
}
