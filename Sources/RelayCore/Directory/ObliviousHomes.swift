/// A registered contact's output, and what a look-up says of the contact.
package struct RegisteredOutput: Sendable, Hashable {
  package let output: ObliviousOutput
  /// nil for an account of the relay that answers.
  package let relay: RelayName?
  package let supportsSMS: Bool
  package let voice: Bool

  package init(_ output: ObliviousOutput, relay: RelayName?, supportsSMS: Bool = false, voice: Bool = false) {
    self.output = output
    self.relay = relay
    self.supportsSMS = supportsSMS
    self.voice = voice
  }
}

/// The homes of the contacts of a page of outputs: the names of their relays once each, and a number for each output
/// (docs/protocol.md, "Oblivious look-up").
///
/// A number is one byte while the page names at most 63 relays, else two, big-endian. Its highest bit is voice, the
/// next one SMS. The rest is 0 for the relay that answers, and n for the n-th name.
package struct ObliviousHomes: Sendable, Equatable {
  /// Ascending, each once.
  package let relays: [RelayName]
  /// In the order of the outputs.
  package let bytes: [UInt8]

  /// As many relays as a directory has.
  package static let relaysMax = 4095
  private static let shortMax = 63

  package init(of outputs: some Collection<RegisteredOutput>) {
    relays = Set(outputs.lazy.compactMap(\.relay)).sorted()
    let numbers = Dictionary(uniqueKeysWithValues: relays.enumerated().map { ($1, $0 + 1) })
    let width = Self.width(relays.count)
    var bytes: [UInt8] = []
    bytes.reserveCapacity(width * outputs.count)
    for output in outputs {
      // Every relay of an output is among them.
      let number = output.relay.flatMap { numbers[$0] } ?? 0
      let flags = (output.voice ? 0x80 : 0) | (output.supportsSMS ? 0x40 : 0)
      if width == 2 {
        bytes += [UInt8(flags | number >> 8), UInt8(number & 0xFF)]
      } else {
        bytes.append(UInt8(flags | number))
      }
    }
    self.bytes = bytes
  }

  /// - Returns: nil unless each of `outputs` has a number whose relay is named.
  package static func read(
    _ outputs: [ObliviousOutput], _ bytes: [UInt8], _ relays: [RelayName]
  ) -> [RegisteredOutput]? {
    let width = Self.width(relays.count)
    guard relays.count <= relaysMax, bytes.count == width * outputs.count else { return nil }
    var registered: [RegisteredOutput] = []
    registered.reserveCapacity(outputs.count)
    for (index, output) in outputs.enumerated() {
      let first = Int(bytes[index * width])
      let number = width == 2 ? (first & 0x3F) << 8 | Int(bytes[index * 2 + 1]) : first & 0x3F
      guard number <= relays.count else { return nil }
      registered.append(
        RegisteredOutput(
          output, relay: number == 0 ? nil : relays[number - 1], supportsSMS: first & 0x40 != 0,
          voice: first & 0x80 != 0))
    }
    return registered
  }

  private static func width(_ relayCount: Int) -> Int { relayCount > shortMax ? 2 : 1 }
}
