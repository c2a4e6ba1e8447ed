import Foundation

/// The machine on which the figures were measured.
struct Machine: Sendable, Encodable {
  let processor: String
  let processors: Int
  let memoryGiB: Double
  let kernel: String
  /// nil where it was not started.
  let postgres: String?
  let build: String
  /// ISO 8601.
  let date: String

  static var processors: Int { ProcessInfo.processInfo.activeProcessorCount }
  static let isOptimised: Bool = {
    #if DEBUG
      false
    #else
      true
    #endif
  }()

  init(postgres: String?) throws {
    let cpuinfo = try String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)
    let model = cpuinfo.split(separator: "\n").first { $0.hasPrefix("model name") }?.split(separator: ":").last
    processor = model.map { $0.trimmingCharacters(in: .whitespaces) } ?? "unknown"
    processors = Self.processors
    memoryGiB = Double(ProcessInfo.processInfo.physicalMemory) / Double(1 << 30)
    kernel = try String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8)
      .trimmingCharacters(in: .whitespacesAndNewlines)
    self.postgres = postgres
    build = Self.isOptimised ? "release" : "debug"
    date = Date.now.ISO8601Format()
  }
}
