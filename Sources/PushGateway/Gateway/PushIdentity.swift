import Crypto
import OrderedCollections
import RelayCore

/// Tells whether a push is the repeat of another one (reference 12).
///
/// The same event for the same push key of the same app is one push, unless the pushers' data differ: several accounts
/// share the push key of one browser and are told apart by their default payloads. Counts change between a request and
/// its repeat, and are left out. A hash, so that no push key is kept.
package struct PushIdentity: Sendable, Hashable {
  private let high: UInt64
  private let low: UInt64
  /// Equal devices of one request are several pushes; the repeat numbers them alike.
  private var occurrence: UInt32 = 0

  /// - Parameter app: the entry's name.
  package init(app: String, device: NotifiedDevice, eventID: String) {
    var text: [UInt8] = []
    text.reserveCapacity(512)
    Self.append(app.utf8, to: &text)
    Self.append(device.pushKey.utf8, to: &text)
    Self.append(eventID.utf8, to: &text)
    if let data = device.data { Self.append(JSONValue.object(data).bytes(.compact), to: &text) }
    var words: (UInt64, UInt64) = (0, 0)
    for (index, byte) in SHA256.hash(data: text).prefix(16).enumerated() {
      if index < 8 { words.0 = words.0 << 8 | UInt64(byte) } else { words.1 = words.1 << 8 | UInt64(byte) }
    }
    (high, low) = words
  }

  /// The length goes before the bytes: what ends one text must not begin the next.
  private static func append(_ bytes: some Collection<UInt8>, to text: inout [UInt8]) {
    withUnsafeBytes(of: UInt64(bytes.count).littleEndian) { text.append(contentsOf: $0) }
    text.append(contentsOf: bytes)
  }

  /// As all processes know it.
  var mark: PushMark {
    var bytes: [UInt8] = []
    for word in [high, low, UInt64(occurrence)] {
      withUnsafeBytes(of: word.bigEndian) { bytes.append(contentsOf: $0) }
    }
    return PushMark(bytes)
  }

  package func occurring(_ times: UInt32) -> PushIdentity {
    var identity = self
    identity.occurrence = times
    return identity
  }
}
