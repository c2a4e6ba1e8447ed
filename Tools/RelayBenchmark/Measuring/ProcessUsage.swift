import Glibc

/// The kind of a server process, for the figures.
enum ServerClass: String, Sendable, CaseIterable, Hashable {
  case alpha = "relay alpha"
  case beta = "relay beta"
  case postgres = "PostgreSQL"
  /// Of Citus; the coordinator is `postgres`.
  case worker = "workers"
  case redis = "Redis"

  var isRelay: Bool { self == .alpha || self == .beta }
}

/// CPU seconds, user and system.
struct ServerUsage: Sendable {
  /// CPU seconds of the servers.
  var cpuSeconds: [ServerClass: Double] = [:]
  /// CPU seconds of this program.
  var ownSeconds = 0.0
  /// CPU seconds of all processes on the machine.
  var machineSeconds = 0.0
  /// Times that a thread of a relay gave its processor up, or was made to.
  var switches = 0
  /// Statements that PostgreSQL has run for the relays; nil where it does not count them.
  var statements: Int?
  /// System calls of the relays; nil where nobody counts them.
  var systemCallsPerSecond: Double?

  /// CPU seconds of processes that have nothing to do with the benchmark.
  var otherSeconds: Double { max(0, machineSeconds - ownSeconds - cpuSeconds.values.reduce(0, +)) }

  static func - (end: Self, start: Self) -> Self {
    Self(
      cpuSeconds: end.cpuSeconds.merging(start.cpuSeconds) { $0 - $1 }, ownSeconds: end.ownSeconds - start.ownSeconds,
      machineSeconds: end.machineSeconds - start.machineSeconds, switches: end.switches - start.switches,
      statements: end.statements.flatMap { last in start.statements.map { last - $0 } },
      systemCallsPerSecond: end.systemCallsPerSecond)
  }
}

/// Reads /proc. Linux counts CPU time there in ticks of 10 ms, scaled to the precise sum.
enum ProcessUsage {
  /// CPU time of `pid`, of the children it has already buried, and of those alive.
  ///
  /// One level is enough: PostgreSQL's processes are all children of its first, and the others have none. A child that
  /// ends between two readings moves from the living to the buried and is counted once in each.
  static func cpuSecondsOfFamily(_ pid: pid_t) throws -> Double {
    guard let own = try status(of: pid) else { throw BenchmarkFailure("a server process is gone") }
    var ticks = own.ownTicks + own.buriedTicks
    for other in try numbers(in: "/proc") where other != pid {
      if let child = try status(of: other), child.parent == pid { ticks += child.ownTicks + child.buriedTicks }
    }
    return seconds(ticks)
  }

  /// CPU time of `pid` alone.
  static func cpuSecondsOfProcess(_ pid: pid_t) throws -> Double {
    guard let status = try status(of: pid) else { throw BenchmarkFailure("a process is gone") }
    return seconds(status.ownTicks)
  }

  /// CPU time of all processes since the machine started.
  static func cpuSecondsOfMachine() throws -> Double {
    // `cpu  user nice system idle ...` (proc(5))
    guard let fields = try read("/proc/stat")?.prefix(while: { $0 != "\n" }).split(separator: " "), fields.count > 4
    else { throw BenchmarkFailure("/proc/stat cannot be read") }
    return seconds(fields[1...3].compactMap { Int($0) }.reduce(0, +))
  }

  /// CPU time of the calling thread, to the nanosecond.
  static func cpuSecondsOfThread() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  /// Switches of all threads of `pid`, voluntary and not. Those of a thread that has ended are forgotten: a relay's
  /// stay.
  static func switches(_ pid: pid_t) throws -> Int {
    var sum = 0
    for thread in try numbers(in: "/proc/\(pid)/task") {
      guard let status = try read("/proc/\(pid)/task/\(thread)/status") else { continue }
      for line in status.split(separator: "\n") where line.contains("ctxt_switches:") {
        sum += line.split { " \t".contains($0) }.last.flatMap { Int($0) } ?? 0
      }
    }
    return sum
  }

  private static func seconds(_ ticks: Int) -> Double { Double(ticks) / Double(sysconf(Int32(_SC_CLK_TCK))) }

  /// Memory that `pid` has resident now, in bytes, shared libraries included.
  static func residentBytes(_ pid: pid_t) throws -> Int { try memory("VmRSS:", of: pid) }
  /// The most that it ever had.
  static func peakResidentBytes(_ pid: pid_t) throws -> Int { try memory("VmHWM:", of: pid) }

  /// Memory, in bytes, that the machine could give away now without swapping.
  static func availableBytes() throws -> Int {
    guard let bytes = memory("MemAvailable:", in: try read("/proc/meminfo")) else {
      throw BenchmarkFailure("/proc/meminfo cannot be read")
    }
    return bytes
  }

  private static func memory(_ name: String, of pid: pid_t) throws -> Int {
    guard let bytes = memory(name, in: try read("/proc/\(pid)/status")) else {
      throw BenchmarkFailure("a server process is gone")
    }
    return bytes
  }

  private static func memory(_ name: String, in text: String?) -> Int? {
    let line = text?.split(separator: "\n").first { $0.hasPrefix(name) }
    let words = line?.split { " \t".contains($0) } ?? []
    return words.dropFirst().first.flatMap { Int($0) }.map { $0 << 10 }
  }

  private struct Status {
    let parent: pid_t
    let ownTicks: Int
    let buriedTicks: Int
  }

  /// - Returns: nil when there is no such process any more.
  private static func status(of pid: pid_t) throws -> Status? {
    // The name, in parentheses, may hold anything; the fields behind it are numbered from 3 (proc(5)).
    guard let text = try read("/proc/\(pid)/stat"), let nameEnd = text.lastIndex(of: ")") else { return nil }
    let fields = text[text.index(after: nameEnd)...].split(separator: " ")
    let number = { (field: Int) in fields.count > field - 3 ? Int(fields[field - 3]) ?? 0 : 0 }
    return Status(
      parent: pid_t(number(4)), ownTicks: number(14) + number(15), buriedTicks: number(16) + number(17))
  }

  /// The entries of a folder of /proc that are processes or threads.
  private static func numbers(in path: String) throws -> [pid_t] {
    guard let folder = opendir(path) else { throw BenchmarkFailure("\(path) cannot be read") }
    defer { closedir(folder) }
    var pids: [pid_t] = []
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if let pid = pid_t(name) { pids.append(pid) }
    }
    return pids
  }

  /// - Returns: nil when the file is gone, as those of a process that has ended.
  private static func read(_ path: String) throws -> String? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 8192)
    let count = bytes.withUnsafeMutableBytes { Glibc.read(file, $0.baseAddress, $0.count) }
    return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
  }
}
