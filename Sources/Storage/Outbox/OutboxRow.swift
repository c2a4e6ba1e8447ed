// The stored form of a message that waits for a peer, for both back ends.

import Crypto
import RelayCore

/// The parts of an outbox row that are made of the message.
struct OutboxRow {
  /// As it goes to the peer.
  let bundle: [UInt8]
  let coversMasterOnly: Bool
  /// Equal for a repeated submission and for nothing else of the same peer.
  let fingerprint: Fingerprint

  init(_ message: PeerSubmission) {
    bundle = MessageBundle.encode(message.submission)
    coversMasterOnly = message.submission.coverage == .masterDevice
    fingerprint = Self.fingerprint(of: message, bundle: bundle, coversMasterOnly: coversMasterOnly)
  }

  /// SHA-256, cut to 16 bytes. The bundle, which comes last, holds the timestamp too.
  private static func fingerprint(of message: PeerSubmission, bundle: [UInt8], coversMasterOnly: Bool) -> Fingerprint {
    var hash = SHA256()
    let head: [UInt64] = [
      message.source.account.digits, UInt64(message.source.device.value), message.submission.destination.digits,
      coversMasterOnly ? 1 : 0,
    ]
    for word in head { withUnsafeBytes(of: word.bigEndian) { hash.update(bufferPointer: $0) } }
    bundle.withUnsafeBytes { hash.update(bufferPointer: $0) }
    return hash.finalize().withUnsafeBytes { digest in
      Fingerprint(
        high: UInt64(bigEndian: digest.loadUnaligned(fromByteOffset: 0, as: UInt64.self)),
        low: UInt64(bigEndian: digest.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }
  }

  /// The submission that `bundle` was made of.
  ///
  /// A damaged row must not stop the rows behind it, nor vanish. It becomes a submission for no device, which every
  /// peer refuses for good, so that its sender is told. Its time is lost with it, and the time of its acceptance
  /// serves instead.
  static func submission(
    bundle: [UInt8], to destination: AccountNumber, coversMasterOnly: Bool, accepted: Timestamp
  ) -> Submission {
    let coverage: Submission.Coverage = coversMasterOnly ? .masterDevice : .activeDevices
    do throws(JSONError) {
      let read = try MessageBundle.decode(bundle.span.bytes)
      var submission = read.submission(to: destination, coverage: coverage, request: nil)
      submission.timestamp = submission.timestamp ?? accepted
      return submission
    } catch {
      return Submission(destination: destination, messages: [], timestamp: accepted, coverage: coverage)
    }
  }

  /// A page ends behind the bundle that reaches this: a page of large ones must not fill the process.
  static let pageBytesMax: Int64 = 4 << 20

  /// How long a confirmed list of devices is kept: twice as long as it serves, since its time is that of a relay's
  /// clock.
  static let confirmationMillisMax = 2 * Timestamp.millisPerDay
  /// A word that is so much newer than the present one comes from a clock that was wrong.
  static let confirmationSkewMillis: Int64 = 300_000
}
