import Crypto
import Glibc
package import RelayCore

/// Presigned URLs by AWS's signature version 4 in the query.
///
/// Signs the host, what `headers` holds, and nothing of the body (`UNSIGNED-PAYLOAD`).
package struct S3Signature: Sendable {
  private let region: String
  private let accessKey: String
  private let secretKey: Secret

  package init(region: String, accessKey: String, secretKey: Secret) {
    self.region = region
    self.accessKey = accessKey
    self.secretKey = secretKey
  }

  /// - Parameters:
  ///   - host: as the client will send it, with the port unless it is the scheme's.
  ///   - path: begins with a slash, percent-encoded.
  ///   - headers: further ones that the request must bring exactly so; names in lower case, ascending, behind `host`.
  /// - Returns: the query, without `?`.
  package func query(
    _ method: String, host: String, path: String, headers: [(name: String, value: String)] = [], now: Timestamp,
    seconds: Int64
  ) -> String {
    let all = ([(name: "host", value: host)] + headers).sorted { $0.name < $1.name }
    let names = all.map(\.name).joined(separator: ";")
    let time = Self.time(now)
    let scope = "\(time.prefix(8))/\(region)/s3/aws4_request"
    let query = [
      "X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Credential=\(Self.encoded("\(accessKey)/\(scope)"))",
      "X-Amz-Date=\(time)", "X-Amz-Expires=\(seconds)", "X-Amz-SignedHeaders=\(Self.encoded(names))",
    ].joined(separator: "&")
    let canonical = [
      method, path, query, all.map { "\($0.name):\($0.value)\n" }.joined(), names, "UNSIGNED-PAYLOAD",
    ].joined(separator: "\n")
    let toSign = ["AWS4-HMAC-SHA256", time, scope, Hex.encode(SHA256.hash(data: Array(canonical.utf8)))]
    let signature = Self.code(Array(toSign.joined(separator: "\n").utf8), signingKey(day: time.prefix(8)))
    return "\(query)&X-Amz-Signature=\(Hex.encode(signature))"
  }

  private func signingKey(day: Substring) -> [UInt8] {
    [String(day), region, "s3", "aws4_request"].reduce(Array("AWS4\(secretKey.value)".utf8)) { key, part in
      Self.code(Array(part.utf8), key)
    }
  }

  private static func code(_ bytes: [UInt8], _ key: [UInt8]) -> [UInt8] {
    Array(HMAC<SHA256>.authenticationCode(for: bytes, using: SymmetricKey(data: key)))
  }

  /// `20130524T000000Z`.
  private static func time(_ now: Timestamp) -> String {
    var seconds = time_t(now.millis / 1000)
    var parts = tm()
    gmtime_r(&seconds, &parts)
    let two = { (number: Int32) in (number < 10 ? "0" : "") + String(number) }
    return "\(parts.tm_year + 1900)\(two(parts.tm_mon + 1))\(two(parts.tm_mday))T"
      + "\(two(parts.tm_hour))\(two(parts.tm_min))\(two(parts.tm_sec))Z"
  }

  /// All but letters, digits and `-._~` escaped.
  static func encoded(_ text: String) -> String {
    var output = ""
    for byte in text.utf8 {
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        output.unicodeScalars.append(UnicodeScalar(byte))
      default: output += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
      }
    }
    return output
  }
}
