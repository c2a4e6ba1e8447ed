import Attachments
import Foundation
import Glibc
import RelayConfiguration
import RelayCore

/// Checks the place where blobs are kept.
struct AttachmentChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] { [DoctorCheck(group: .attachments, name: "blobs") { [await blobs()] }] }

  private func blobs() async -> Finding {
    switch site.settings.attachments.location {
    case .folder(let path): Self.folder(path)
    case .s3(let bucket, let endpoint, let region): await self.bucket(bucket, endpoint, region)
    }
  }

  private static func folder(_ path: String) -> Finding {
    guard FileManager.default.fileExists(atPath: path) else {
      return .warned("there is no folder \(path) yet", remedy: "`relay serve` makes it.")
    }
    guard access(path, R_OK | W_OK | X_OK) == 0 else {
      return .failed("the folder \(path) cannot be written", remedy: "Give it to the user that the relay runs as.")
    }
    var space = statvfs()
    guard statvfs(path, &space) == 0 else { return .ok("the folder \(path) can be written") }
    let free = UInt64(space.f_bavail) * UInt64(space.f_frsize)
    guard free > freeMin else {
      return .warned(
        "\(free >> 20) MiB are left in \(path)", remedy: "Make room: uploads fail when the disk is full.")
    }
    return .ok("the folder \(path) can be written, \(free >> 30) GiB are free")
  }

  /// HEAD of an object that nobody made: 404 means that the bucket answers us.
  private func bucket(_ bucket: String, _ endpoint: WebURL, _ region: String) async -> Finding {
    guard let credentials = site.settings.attachments.s3, let nobody = AttachmentID(1) else {
      return .failed("no S3 credentials", remedy: "Set attachments.s3.access-key and attachments.s3.secret-key.")
    }
    let store = S3Store(
      endpoint: endpoint.text, bucket: bucket, region: region,
      keys: { (credentials.accessKey, credentials.secretKey) }, client: site.client, clock: .system)
    do {
      _ = try await store.bytes(of: nobody)
      return .ok("the bucket \(bucket) answers")
    } catch {
      return .failed(
        "the bucket \(bucket) at \(endpoint.text): \(error)",
        remedy: "Check attachments.url, the keys, and what they may do: GET, PUT, HEAD and DELETE of objects.")
    }
  }

  private static let freeMin: UInt64 = 1 << 30
}
