import RelayCore
import SwiftASN1
import X509

/// The statement of an operator's CA about itself, made for peers (docs/federation-wire.md, "Authority statements").
struct AuthorityStatement: Sendable, Equatable {
  static let revokedMax = 1000
  /// The longest serial number that RFC 5280 allows (4.1.2.2).
  static let serialBytesMax = 20

  let name: RelayName
  /// When it was made, in milliseconds since 1970, or more: it only rises.
  let sequence: Int64
  let authority: Certificate
  /// The CA that takes over; nil for none.
  let next: Certificate?
  /// Serial numbers of leaves that have not ended and prove nothing any more; ascending, at most `revokedMax`.
  let revokedSerials: [[UInt8]]

  /// - Throws: what the serializer of certificates throws.
  func json() throws -> [UInt8] {
    let (authority, next) = (try authority.der, try next?.der)
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("name")
    writer.string(name.text)
    writer.key("sequence")
    writer.integer(sequence)
    writer.key("authority")
    writer.base64(authority, padded: true)
    writer.key("next")
    writer.base64(next, padded: true)
    writer.key("revoked")
    writer.beginArray()
    for serial in revokedSerials { writer.string(serial.hex) }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> AuthorityStatement {
    var reader = JSONReader(json)
    var (name, sequence): (RelayName?, Int64?)
    var (authority, next): ([UInt8]?, [UInt8]?)
    var revoked: [[UInt8]] = []
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "name") {
        name = try reader.string().flatMap { RelayName($0) }
      } else if reader.matches(key, "sequence") {
        sequence = try reader.integer()
      } else if reader.matches(key, "authority") {
        authority = try reader.base64()
      } else if reader.matches(key, "next") {
        next = try reader.base64()
      } else if reader.matches(key, "revoked") {
        revoked = try reader.serials()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let name, let sequence, sequence > 0, let authority else { throw .wrongShape }
    return AuthorityStatement(
      name: name, sequence: sequence, authority: try certificate(authority), next: try next.map(certificate),
      revokedSerials: revoked.sorted { $0.lexicographicallyPrecedes($1) })
  }

  fileprivate static func certificate(_ der: [UInt8]) throws(JSONError) -> Certificate {
    do {
      return try Certificate(derEncoded: der)
    } catch {
      throw .wrongShape
    }
  }
}

/// A statement with its CA's signature: ECDSA with SHA-256 over exactly the bytes that carry it.
///
/// Apart from statements the key signs only certificates, which begin with another byte. So neither can be taken for
/// the other.
struct SignedStatement: Sendable {
  /// Two certificates and as many revoked serial numbers as there may be, twice in base64, with room.
  static let bytesMax = 160 << 10

  let statement: AuthorityStatement
  /// The statement's JSON.
  let body: [UInt8]
  /// DER.
  let signature: [UInt8]
  /// The CA that says that it signed.
  let signer: Certificate

  init(_ statement: AuthorityStatement, by authority: CertificateAuthority) throws {
    self.statement = statement
    body = try statement.json()
    signature = try authority.key.sign(bytes: body, signatureAlgorithm: .ecdsaWithSHA256).rawRepresentation
    signer = authority.certificate
  }

  private init(statement: AuthorityStatement, body: [UInt8], signature: [UInt8], signer: Certificate) {
    self.statement = statement
    self.body = body
    self.signature = signature
    self.signer = signer
  }

  func isSigned(by authority: Certificate) -> Bool {
    authority.publicKey.isValidSignature(signature, for: body, signatureAlgorithm: .ecdsaWithSHA256)
  }

  /// - Throws: what the serializer of certificates throws.
  func json() throws -> [UInt8] {
    let signer = try signer.der
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("statement")
    writer.base64(body, padded: true)
    writer.key("signature")
    writer.base64(signature, padded: true)
    writer.key("authority")
    writer.base64(signer, padded: true)
    writer.endObject()
    return writer.bytes
  }

  /// Reads one; nothing about who signed it is checked.
  static func decode(_ json: RawSpan) throws(JSONError) -> SignedStatement {
    guard json.byteCount <= bytesMax else { throw .tooLarge }
    var reader = JSONReader(json)
    var (body, signature, signer): ([UInt8]?, [UInt8]?, [UInt8]?)
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "statement") {
        body = try reader.base64()
      } else if reader.matches(key, "signature") {
        signature = try reader.base64()
      } else if reader.matches(key, "authority") {
        signer = try reader.base64()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    guard let body, let signature, let signer else { throw .wrongShape }
    return SignedStatement(
      statement: try AuthorityStatement.decode(body.span.bytes), body: body, signature: signature,
      signer: try AuthorityStatement.certificate(signer))
  }
}

extension JSONReader {
  /// - Throws: `.tooLarge` for more than may be revoked; `.wrongShape` for what is no serial number.
  fileprivate mutating func serials() throws(JSONError) -> [[UInt8]] {
    if try readNull() { return [] }
    var serials: [[UInt8]] = []
    try beginArray()
    while try nextElement() {
      guard serials.count < AuthorityStatement.revokedMax else { throw .tooLarge }
      guard let serial = try string().flatMap({ [UInt8](hex: $0) }),
        (1...AuthorityStatement.serialBytesMax).contains(serial.count)
      else { throw .wrongShape }
      serials.append(serial)
    }
    return serials
  }
}
