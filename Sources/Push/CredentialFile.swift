import Crypto
import Glibc
import RelayCore
import RelayHTTP

/// Why credentials cannot be used. Names the file, never what stands in it.
package struct PushCredentialError: Error, Sendable, Equatable, CustomStringConvertible {
  package let file: String
  package let reason: String
  package var description: String { "\(file): \(reason)" }

  init(_ file: String, _ reason: String) {
    self.file = file
    self.reason = reason
  }
}

/// Files that hold keys and certificates.
enum CredentialFile {
  /// A key, a chain of certificates or a service account is a few kilobytes.
  static let bytesMax = 256 << 10

  static func read(_ path: String) throws(PushCredentialError) -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw PushCredentialError(path, String(cString: strerror(errno))) }
    defer { close(descriptor) }
    guard let facts = FileFacts(descriptor), facts.byteCount <= bytesMax else {
      throw PushCredentialError(path, "larger than any key or certificate")
    }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16 << 10)
    while true {
      let count = Glibc.read(descriptor, &buffer, buffer.count)
      if count == 0 { break }
      if count < 0 {
        if errno == EINTR { continue }
        throw PushCredentialError(path, String(cString: strerror(errno)))
      }
      guard bytes.count + count <= bytesMax else {
        throw PushCredentialError(path, "larger than any key or certificate")
      }
      bytes += buffer[..<count]
    }
    guard let text = String(validating: bytes, as: UTF8.self) else { throw PushCredentialError(path, "not a text") }
    return text
  }

  /// The blocks of a PEM file whose kind is `kind` or ends with it: files may hold several, and parameters before a
  /// key.
  static func blocks(_ kind: String, of pem: String) -> [String] {
    var blocks: [String] = []
    var lines: [Substring]?
    for line in pem.split(whereSeparator: \.isNewline) {
      if line.hasPrefix("-----BEGIN "), line.hasSuffix("\(kind)-----") { lines = [] }
      lines?.append(line)
      if line.hasPrefix("-----END "), let whole = lines {
        blocks.append(whole.joined(separator: "\n") + "\n")
        lines = nil
      }
    }
    return blocks
  }
}

extension CredentialFile {
  /// The P-256 key of a PEM file, PKCS #8 (`.p8`) or SEC 1.
  static func signingKey(_ path: String) throws(PushCredentialError) -> P256.Signing.PrivateKey {
    guard let block = blocks("PRIVATE KEY", of: try read(path)).first else {
      throw PushCredentialError(path, "no private key in PEM")
    }
    do {
      return try P256.Signing.PrivateKey(pemRepresentation: block)
    } catch {
      // The parser's error could hold a part of the key.
      throw PushCredentialError(path, "no key of the curve P-256")
    }
  }
}
