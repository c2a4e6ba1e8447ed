import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// The words that a process is told over Redis.
@Suite(.tags(.unit)) struct PresenceWordTests {
  private func event(_ text: String) -> PresenceEvent? { PresenceWord.event(Array(text.utf8)) }

  @Test func `words are read as they were said`() throws {
    let devices = try [Sample.address(1), Sample.address(2, device: Int64(Int32.max))]
    let texts = devices.map(PresenceWord.text(of:))
    #expect(event("wake \(texts[0])") == .wakeUp([devices[0]]))
    #expect(event("wake \(texts.joined(separator: " "))") == .wakeUp(devices))
    for id in [0, 1, 1 << 53 + 1, .max] as [UInt64] {
      let displaced = PresenceEvent.displaced(devices[1], connection: id)
      // As the entry of a build of before has it, and as one has it that carries the order.
      #expect(event("displaced \(texts[1]) \(id)") == displaced)
      let ordered = HoldScript.id(of: LiveConnection(device: devices[1], id: id, opened: .now))
      #expect(ordered.count == 20)
      for order in ["0", "1700000000000000", "9000000000000000"] {
        #expect(event("displaced \(texts[1]) \(order)\(ordered)") == displaced)
      }
    }
    let address = try Sample.waiting(7)
    for bytes in [[], [0], Array(0...255)] as [[UInt8]] {
      #expect(event(PresenceWord.handOver(bytes, to: address)) == .handedOver(bytes, to: address))
    }
  }

  @Test func `devices that cannot be read keep nobody else asleep`() throws {
    let devices = try [Sample.address(1), Sample.address(2)]
    let texts = devices.map(PresenceWord.text(of:))
    for strange in ["x", "", "+1.1", "+4915100000001", "\(texts[0]).1"] {
      #expect(event("wake \(texts[0]) \(strange) \(texts[1])") == .wakeUp(devices))
      #expect(event("wake \(strange) \(texts[1])") == .wakeUp([devices[1]]))
      #expect(event("wake \(texts[0]) \(strange)") == .wakeUp([devices[0]]))
    }
  }

  @Test func `anything else is ignored`() throws {
    let device = try PresenceWord.text(of: Sample.address(1))
    let address = try Sample.waiting(7).text
    for text in [
      "", " ", "wake", "wake ", "wake  ", "wake \(device).1", "wake \(device.dropFirst())",
      "wake +4915100000001", "wake +4915100000001.", "wake +4915100000001.0", "wake +1.1", "wake x y",
      "Wake \(device)", "displaced \(device)", "displaced \(device) ", "displaced \(device) 7 1",
      "displaced \(device) 1700000000000000x0000000000000000007",
      "displaced \(device) -7", "displaced \(device) +7", "displaced \(device) 99999999999999999999", "displaced x 7",
      "handed \(address)", "handed \(address) !", "handed \(address.dropLast()) AAAA", "handed \(address) AAAA x",
      "connected",
      "sender account +4915100000001", "wakeUp \(device)",
    ] { #expect(event(text) == nil, "\(text)") }
  }

  @Test func `no bytes do harm, and what is read says itself again`() throws {
    var random = SystemRandomNumberGenerator()
    let device = try PresenceWord.text(of: Sample.address(1))
    let seeds = try [
      "wake \(device) \(device)", "displaced \(device) 7",
      PresenceWord.handOver(Array(0..<40), to: Sample.waiting(7)),
    ].map { Array($0.utf8) }
    for round in 0..<20_000 {
      var bytes = seeds[round % seeds.count]
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        let place = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<3, using: &random) {
        case 0: bytes[place] = UInt8.random(in: .min ... .max, using: &random)
        case 1: bytes.removeSubrange(place...)
        default: bytes.insert(UInt8.random(in: .min ... .max, using: &random), at: place)
        }
        if bytes.isEmpty { break }
      }
      switch PresenceWord.event(bytes) {
      case .wakeUp(let devices): #expect(!devices.isEmpty)
      case .displaced, .handedOver, nil: break
      case .connected, .disconnected: Issue.record("a state of the connection was read from a word")
      }
    }
  }
}
