// A network of hosts on one machine: each host is a network namespace with a TUN device, and this process carries the
// packets between them, late, seldom or not at all, as a test wants it.

import Foundation
import Glibc
import Synchronization
import TestSupport

/// Carries IPv4 packets between TUN devices, by the last byte of the destination address.
///
/// One thread; packets wait in memory, at most `waitingMax`, as in a router that drops what it cannot hold.
final class PacketSwitch: @unchecked Sendable {  // Mutable state is the thread's, or behind the mutex.
  /// The treatment of packets from one host to another.
  struct Link: Sendable, Equatable {
    var delay = Duration.zero
    /// Of 1.
    var loss = 0.0
    var isCut = false
    static let whole = Link()
  }

  struct Route: Hashable, Sendable {
    let from: UInt8
    let to: UInt8
  }

  private struct Packet {
    let bytes: [UInt8]
    let to: UInt8
    let due: ContinuousClock.Instant
  }

  private struct Shared {
    var links: [Route: Link] = [:]
    var isStopping = false
  }

  private let devices: [UInt8: Int32]
  private let shared = Mutex(Shared())
  private let ended = DispatchSemaphore(value: 0)
  /// Ascending by `due`: delays are few and alike, so that a packet goes near the end.
  private var waiting: [Packet] = []
  private var random = SystemRandomNumberGenerator()

  /// - Parameter devices: TUN descriptors by host; they are closed at the end.
  init(_ devices: [UInt8: Int32]) {
    self.devices = devices
    Thread.detachNewThread { [self] in
      carry()
      for device in devices.values { close(device) }
      ended.signal()
    }
  }

  func set(_ link: Link, from: UInt8, to: UInt8) {
    shared.withLock { $0.links[Route(from: from, to: to)] = link }
  }

  /// On return the devices are gone.
  func stop() {
    shared.withLock { $0.isStopping = true }
    ended.wait()
  }

  private func carry() {
    let hosts = Array(devices.keys)
    var polled = hosts.map { pollfd(fd: devices[$0] ?? -1, events: Int16(POLLIN), revents: 0) }
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while !shared.withLock({ $0.isStopping }) {
      _ = poll(&polled, nfds_t(polled.count), patience())
      for (index, entry) in polled.enumerated() where entry.revents != 0 {
        // Some at a time, so that no host holds up the others.
        for _ in 0..<64 {
          let count = read(entry.fd, &buffer, buffer.count)
          guard count >= 20 else { break }
          take(Array(buffer.prefix(count)), from: hosts[index])
        }
      }
      deliver()
    }
  }

  /// Until the next packet is due, 20 ms at most.
  private func patience() -> Int32 {
    guard let next = waiting.first else { return 20 }
    let left = next.due - .now
    return Int32(clamping: min(20, max(0, Int(left / .milliseconds(1)) + 1)))
  }

  private func take(_ bytes: [UInt8], from host: UInt8) {
    // The last byte of an IPv4 destination; of another protocol nothing is carried.
    guard bytes[0] >> 4 == 4, devices[bytes[19]] != nil else { return }
    let to = bytes[19]
    let link = shared.withLock { $0.links[Route(from: host, to: to)] } ?? .whole
    guard !link.isCut, waiting.count < Self.waitingMax, Double.random(in: 0..<1, using: &random) >= link.loss else {
      return
    }
    let packet = Packet(bytes: bytes, to: to, due: .now + link.delay)
    let place = waiting.lastIndex { $0.due <= packet.due }.map { $0 + 1 } ?? 0
    waiting.insert(packet, at: place)
  }

  private func deliver() {
    let now = ContinuousClock.now
    let due = waiting.prefix { $0.due <= now }
    for packet in due {
      // A device whose host is gone takes nothing: the packet is lost, as on a network.
      if let device = devices[packet.to] { _ = write(device, packet.bytes, packet.bytes.count) }
    }
    waiting.removeFirst(due.count)
  }

  private static let waitingMax = 20_000
}
