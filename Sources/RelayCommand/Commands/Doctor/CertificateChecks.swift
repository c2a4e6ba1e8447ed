import Federation
import Foundation
import NIOSSL
import RelayConfiguration
import RelayCore
import RelayHTTP

/// How long our certificates last, and whether they are what the configuration says.
struct CertificateChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] {
    [
      DoctorCheck(group: .certificates, name: "client") { client() },
      DoctorCheck(group: .certificates, name: "federation") { await federation() },
    ]
  }

  private func client() -> [Finding] {
    guard let tls = site.settings.client.tls else {
      return [.skipped("client.tls is not set: what stands before the relay has the certificate")]
    }
    do throws(ServerCertificate.Fault) {
      let leaf = try ServerCertificate.read(tls, keys: "client.tls").leaf
      return [
        Self.judge(leaf.validUntil, remedy: "Renew \(tls.certificate); running relays take it up."),
        Self.permissions(of: tls.key).named("client key"),
      ]
    } catch {
      return [.failed(error.text, remedy: error.remedy)]
    }
  }

  private func federation() async -> [Finding] {
    guard site.settings.federation.port != nil else { return [.skipped("federation.port is not set")] }
    let credentials: FederationCredentials
    do {
      credentials = try site.credentials()
    } catch let error as FederationError {
      return [.failed(error.text, remedy: error.remedy)]
    } catch {
      return [.failed("\(error)", remedy: "Run `relay ca issue`.")]
    }
    let folder = IdentityFolder(path: site.settings.federation.directory)
    var findings = [
      Self.judge(credentials.leafExpires, remedy: "Run `relay ca renew`.").named("leaf"),
      Self.judge(credentials.authorityExpires, remedy: "Run `relay ca rollover begin`.").named("CA"),
      Self.permissions(of: folder.leafKeyFile).named("leaf key"),
    ]
    // If the leaf has ended, nothing else about it is of interest.
    if let url = site.settings.federation.url, let endpoint = PeerEndpoint(url.text), credentials.leafExpires > .now {
      let fault = await credentials.faultOfLeaf(at: endpoint, now: .now)
      findings.append(Self.covers(fault, endpoint).named("leaf host"))
    }
    // It may be kept elsewhere, and should.
    if FileManager.default.fileExists(atPath: folder.authorityKeyFile) {
      findings.append(Self.permissions(of: folder.authorityKeyFile).named("CA key"))
    }
    return findings
  }

  private static func covers(_ fault: String?, _ endpoint: PeerEndpoint) -> Finding {
    guard let fault else { return .ok("the leaf is for \(endpoint.host)") }
    return .failed(fault, remedy: "Run `relay ca issue`: the leaf must carry the host of federation.url.")
  }

  /// 30, 14 and 3 days ahead, as the log and the metrics warn.
  static func judge(_ end: Timestamp, remedy: String) -> Finding {
    let millis = end.millis - Timestamp.now.millis
    guard millis > 0 else { return .failed("ended \(end.iso8601)", remedy: remedy) }
    let days = millis / Timestamp.millisPerDay
    let text = "\(days) days left, until \(end.iso8601)"
    if days < 3 { return .failed(text, remedy: remedy) }
    return days < 30 ? .warned(text, remedy: days < 14 ? "\(remedy) Do it this week." : remedy) : .ok(text)
  }

  private static func permissions(of file: String) -> Finding {
    let attributes: [FileAttributeKey: Any]
    do {
      attributes = try FileManager.default.attributesOfItem(atPath: file)
    } catch {
      return .failed("\(file) cannot be looked at: \(FaultWords.of(error))", remedy: "Check its owner.")
    }
    let mode = (attributes[.posixPermissions] as? NSNumber)?.intValue ?? 0
    // A group of those that need it may read: Debian's `ssl-cert` is one.
    guard mode & 0o027 == 0 else {
      let what = mode & 0o007 == 0 ? "can be changed by its group" : "can be read by others"
      return .failed(
        "\(file) \(what) (mode \(String(mode, radix: 8)))",
        remedy: "Run `chmod 600 \(file)`, or 640 where a group needs it.")
    }
    guard mode & 0o040 != 0 else { return .ok("readable by its owner alone") }
    let group = attributes[.groupOwnerAccountName] as? String ?? "its group"
    return .ok("readable by its owner and the group \(group)")
  }
}
