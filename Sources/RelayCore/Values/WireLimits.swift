/// The bounds of what the wire may bring, each with its reason.
package enum WireLimits {
  /// Reference 3.11: a bundle for the devices of one account, base64 in JSON.
  package static let messageRequestBytesMax = 1 << 20
  /// One decoded message body (reference 3.11).
  package static let messageBytesMax = 64 << 10
  /// Far above the devices an account may have, far below what would burden a batch.
  package static let messagesPerBundleMax = 100
  /// Prekeys of one upload; clients send 100 (reference 1.6).
  package static let preKeysPerUploadMax = 1000
  package static let preKeyRequestBytesMax = 1 << 20
  /// One public key or identity key text; real ones have 44 characters.
  package static let keyTextBytesMax = 1024
  /// 50,000 tokens, the size of the bucket, with generous white space.
  package static let directoryRequestBytesMax = 2 << 20
  /// 1,000 elements of an oblivious look-up, in base64, with generous white space.
  package static let obliviousRequestBytesMax = 128 << 10
  /// Everything else is small.
  package static let smallRequestBytesMax = 64 << 10
  /// Deepest nesting of a JSON body that is skipped over.
  package static let jsonDepthMax = 32
  /// Messages of one `GET /v1/messages` answer (reference 1.9).
  package static let messagesPerPage = 100
  /// A page ends behind the message that reaches this: a mailbox of large ones must not fill the process.
  package static let messagePageBytesMax = 1 << 20
  /// Entries of one `user_tokens` page (reference 1.13.2).
  package static let contactsPerPage = 10_000
  /// Buckets that one request may be charged to at once.
  package static let limitChargesMax = 16
  /// How long after a message was handed over to a peer a receipt for it is taken: as long as messages are kept.
  package static let receiptDays = 30
  /// Hand-overs of one batch between relays, and their bytes (docs/federation-wire.md, "Batches").
  package static let handOversPerBatchMax = 256
  package static let batchBytesMax = 4 << 20
}
