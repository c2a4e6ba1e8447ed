import ChildProcesses
import Foundation

/// The TCP sockets of one process, as the kernel lists them.
package struct ProcessSockets: Sendable {
  /// The ports at which it listens.
  package let listening: Set<Int>
  /// The ports to which it has, or makes, connections of its own; those that others made to it are left out.
  package let outgoing: Set<Int>

  /// - Parameter pid: a process of this test's user.
  package init(of pid: Int32) throws {
    let inodes = try Self.inodes(of: pid)
    let rows = try ["tcp", "tcp6"].flatMap { try Self.rows("/proc/\(pid)/net/\($0)") }
      .filter { inodes.contains($0.inode) }
    let listening = Set(rows.filter(\.isListening).map(\.local))
    self.listening = listening
    outgoing = Set(rows.filter { !$0.isListening && !listening.contains($0.local) }.map(\.remote))
  }

  private struct Row {
    let local: Int
    let remote: Int
    let isListening: Bool
    let inode: String
  }

  private static func inodes(of pid: Int32) throws -> Set<String> {
    let folder = "/proc/\(pid)/fd"
    let links = try FileManager.default.contentsOfDirectory(atPath: folder).compactMap { name in
      // A descriptor may be closed meanwhile.
      try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\(name)")
    }
    return Set(links.filter { $0.hasPrefix("socket:[") }.map { String($0.dropFirst("socket:[".count).dropLast()) })
  }

  /// proc(5): `sl local_address rem_address st ... inode`, addresses as `HEX:PORT`, both in hexadecimal.
  private static func rows(_ path: String) throws -> [Row] {
    // The kernel gives the file in parts, and says nothing of its size.
    guard let file = FileHandle(forReadingAtPath: path) else { throw TestFailure("\(path) cannot be read") }
    let text = String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
    return text.split(separator: "\n").dropFirst().compactMap { line in
      let words = line.split(separator: " ", omittingEmptySubsequences: true)
      guard words.count > 9, let local = port(words[1]), let remote = port(words[2]) else { return nil }
      return Row(local: local, remote: remote, isListening: words[3] == "0A", inode: String(words[9]))
    }
  }

  private static func port(_ address: Substring) -> Int? {
    address.split(separator: ":").last.flatMap { Int($0, radix: 16) }
  }
}

extension RelayProcess {
  package func sockets() throws -> ProcessSockets { try ProcessSockets(of: child.pid) }
}
