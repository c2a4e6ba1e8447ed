import RelayMetrics

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// The system's figures for this process, under the names that Prometheus' own clients use.
///
/// Read from `/proc` when asked. Figures that cannot be read (elsewhere than on Linux) are left out.
enum ProcessMetrics {
  static func exposition() -> String {
    var text = ""
    func add(_ metric: any Metric, _ value: Double?) {
      guard let value else { return }
      text += Exposition.header(metric) + "\(metric.name) \(Exposition.number(value))\n"
    }
    let process = RelayMetric.process
    let stat = statFields()
    let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
    let cpu = stat.map { (Double($0.userTicks) + Double($0.systemTicks)) / ticks }
    add(process.cpu, cpu)
    let resident = stat.map { Double($0.residentPages) * Double(sysconf(Int32(_SC_PAGESIZE))) }
    add(process.memory, resident)
    add(process.files, openFiles().map(Double.init))
    add(process.filesMax, openFilesMax())
    let started = stat.flatMap { stat in bootTime().map { $0 + Double(stat.startTicks) / ticks } }
    add(process.started, started)
    return text
  }

  private struct Stat {
    let userTicks: Int
    let systemTicks: Int
    /// Since the machine started.
    let startTicks: Int
    let residentPages: Int
  }

  /// proc(5), `/proc/[pid]/stat`: fields 14, 15, 22 and 24, counted behind the name, which may hold anything.
  private static func statFields() -> Stat? {
    guard let text = read("/proc/self/stat"), let end = text.lastIndex(of: ")") else { return nil }
    let fields = text[text.index(after: end)...].split(separator: " ").map { Int($0) }
    guard fields.count > 21, let user = fields[11], let system = fields[12], let start = fields[19],
      let resident = fields[21]
    else { return nil }
    return Stat(userTicks: user, systemTicks: system, startTicks: start, residentPages: resident)
  }

  /// Seconds since 1970.
  private static func bootTime() -> Double? {
    read("/proc/stat")?.split(separator: "\n").first { $0.hasPrefix("btime ") }
      .flatMap { Double($0.dropFirst("btime ".count)) }
  }

  private static func openFiles() -> Int? {
    guard let folder = opendir("/proc/self/fd") else { return nil }
    defer { closedir(folder) }
    var count = 0
    while readdir(folder) != nil { count += 1 }
    // Less `.`, `..` and the descriptor this reads through.
    return max(0, count - 3)
  }

  private static func openFilesMax() -> Double? {
    var limit = rlimit()
    #if canImport(Glibc)
      let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    #else
      let resource = RLIMIT_NOFILE
    #endif
    guard getrlimit(resource, &limit) == 0 else { return nil }
    return Double(limit.rlim_cur)
  }

  private static func read(_ path: String) -> String? {
    guard let stream = fopen(path, "r") else { return nil }
    defer { fclose(stream) }
    // `/proc/stat` has a line a CPU before `btime`.
    var buffer = [UInt8](repeating: 0, count: 256 << 10)
    let count = fread(&buffer, 1, buffer.count, stream)
    return String(decoding: buffer[..<count], as: UTF8.self)
  }
}
