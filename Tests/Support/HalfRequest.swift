import Foundation
import Glibc

/// A request that has been sent by half.
package struct HalfRequest: Sendable {
  private let descriptor: Int32
  private let rest: [UInt8]
  private let localPort: Int

  package init(put path: String, json: String, as device: TestDevice, port: Int) throws {
    let head = """
      PUT \(path) HTTP/1.1\r\nHost: relay\r\nAuthorization: \(device.authorization)\r\n\
      Content-Type: application/json\r\nContent-Length: \(json.utf8.count)\r\n\r\n
      """
    let body = Array(json.utf8)
    let first = Array(head.utf8) + body.prefix(body.count / 2)
    rest = Array(body.suffix(body.count - body.count / 2))
    descriptor = try Loopback.connect(to: port, patience: 20)
    guard send(descriptor, first, first.count, Int32(MSG_NOSIGNAL)) == first.count else { throw TestFailure("send") }
    localPort = try Loopback.localPort(of: descriptor)
  }

  /// Sends the other half. - Returns: the status of the answer; 0 when there is none.
  package func finish() async throws -> Int {
    try await Loopback.blocking { [descriptor, rest] in
      guard send(descriptor, rest, rest.count, Int32(MSG_NOSIGNAL)) == rest.count else { return 0 }
      var buffer = [UInt8](repeating: 0, count: 1024)
      let count = recv(descriptor, &buffer, buffer.count, 0)
      let words = String(decoding: buffer.prefix(max(0, count)), as: UTF8.self).split(separator: " ")
      return words.count > 1 ? Int(words[1]) ?? 0 : 0
    }
  }

  package func close() { Glibc.close(descriptor) }

  /// Whether nothing of what `requests` sent lies unread in the kernel on the side of `port`.
  package static func allRead(by port: Int, _ requests: [HalfRequest]) throws -> Bool {
    // sl local remote state tx:rx ...; addresses in hexadecimal, ports behind the colon.
    // The kernel hands this file out a page at a time, and says of none how long it is.
    var table = ""
    let file = try FileHandle(forReadingFrom: URL(filePath: "/proc/net/tcp"))
    defer { try? file.close() }  // It was only read.
    while let page = try file.read(upToCount: 1 << 16), !page.isEmpty { table += String(decoding: page, as: UTF8.self) }
    var unread: [Int: Int] = [:]
    for line in table.split(separator: "\n").dropFirst() {
      let fields = line.split(separator: " ")
      guard fields.count > 4, let local = Int(fields[1].suffix(4), radix: 16), local == port,
        let remote = Int(fields[2].suffix(4), radix: 16), let queued = Int(fields[4].suffix(8), radix: 16)
      else { continue }
      unread[remote] = queued
    }
    return requests.allSatisfy { unread[$0.localPort] == 0 }
  }
}
