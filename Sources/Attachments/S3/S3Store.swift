package import AsyncHTTPClient
import NIOCore
import NIOHTTP1
package import RelayCore
import RelayHTTP

/// Blobs as objects of a bucket that speaks S3's protocol, path style. Clients send and fetch them there directly, by
/// presigned URLs; the object's key is the id.
///
/// A presigned URL can bound neither the size of what is uploaded nor how often: the sweeper looks at each object when
/// its URL has ended, counts it, and removes what is too large.
package struct S3Store: BlobStore {
  private let origin: String
  private let host: String
  private let folder: String
  private let signature: @Sendable () -> S3Signature
  private let client: HTTPClient
  private let clock: WallClock

  /// - Parameters:
  ///   - endpoint: `http://HOST[:PORT][/PATH]` or `https://...`, without the scheme's own port, no slash at the end.
  ///   - keys: asked for with each request: they may change.
  package init(
    endpoint: String, bucket: String, region: String,
    keys: @escaping @Sendable () -> (accessKey: String, secretKey: Secret), client: HTTPClient, clock: WallClock
  ) {
    let scheme = endpoint.hasPrefix("https://") ? "https://" : "http://"
    let rest = endpoint.dropFirst(scheme.count)
    host = String(rest.prefix { $0 != "/" })
    origin = scheme + host
    folder = "\(rest.dropFirst(host.count))/\(S3Signature.encoded(bucket))/"
    signature = {
      let keys = keys()
      return S3Signature(region: region, accessKey: keys.accessKey, secretKey: keys.secretKey)
    }
    self.client = client
    self.clock = clock
  }

  /// An upload must declare the media type that is signed with it. A download may come with any: some clients send one,
  /// some none (reference 1.10).
  package func url(for use: BlobUse, of id: AttachmentID, base: String, now: Timestamp) -> String {
    let seconds = BlobTimes.urlLife.components.seconds
    return switch use {
    case .upload:
      url("PUT", id, headers: [(name: "content-type", value: "application/octet-stream")], now: now, seconds: seconds)
    case .download: url("GET", id, now: now, seconds: seconds)
    }
  }

  package func bytes(of id: AttachmentID) async throws(BlobFailure) -> Int64? {
    let answer = try await ask(.HEAD, id)
    switch answer.status.code {
    case 200:
      guard let length = answer.headers.first(name: "Content-Length").flatMap({ Int64($0) }) else {
        throw BlobFailure("S3 told no size")
      }
      return length
    case 404: return nil
    default: throw BlobFailure("S3 answered HEAD with \(answer.status.code)")
    }
  }

  package func remove(_ id: AttachmentID) async throws(BlobFailure) {
    let status = try await ask(.DELETE, id).status.code
    guard [200, 204, 404].contains(status) else { throw BlobFailure("S3 answered DELETE with \(status)") }
  }

  /// An object appears when its upload is complete.
  package func removeLeftovers(before time: Timestamp) async throws(BlobFailure) {}

  /// A rule of the bucket removes what is too old (docs/attachments.md): the relay's credentials need not list objects.
  package func blobs(
    inShare share: UInt8, writtenBefore time: Timestamp, limit: Int
  ) async throws(BlobFailure) -> [AttachmentID] { [] }

  private func ask(_ method: HTTPMethod, _ id: AttachmentID) async throws(BlobFailure) -> HTTPClientResponse {
    var request = HTTPClientRequest(url: url(method.rawValue, id, now: clock.now(), seconds: 60))
    request.method = method
    do {
      return try await client.execute(request, timeout: Self.timeout)
    } catch {
      // No text that could hold the URL.
      let reason = (error as? HTTPClientError)?.shortDescription ?? FaultWords.brief(error)
      throw BlobFailure("S3 cannot be reached: \(reason)")
    }
  }

  private static let timeout = TimeAmount.seconds(30)

  private func url(
    _ method: String, _ id: AttachmentID, headers: [(name: String, value: String)] = [], now: Timestamp, seconds: Int64
  ) -> String {
    let path = folder + id.text
    let query = signature().query(method, host: host, path: path, headers: headers, now: now, seconds: seconds)
    return "\(origin)\(path)?\(query)"
  }
}
