import Federation
import Glibc
import Logging
import NIOSSL
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle

/// A listener shows this to its clients: TLS 1.2 with forward secrecy, or later.
struct ServerCertificate: Sendable {
  let context: NIOSSLContext
  let leaf: WatchedCertificate

  /// Reloaded when the files change, and watched so that nobody is surprised by its end.
  /// - Parameters:
  ///   - prefix: of the keys `certificate` and `key` in the configuration.
  ///   - protocols: that the listener speaks, the best first.
  /// - Returns: what is shown now, and what sees to it.
  /// - Throws: `CommandFailure` when they cannot be used.
  static func reloading(
    _ tls: RelayConfiguration.TLS, keys prefix: String, protocols: [String] = ["h2", "http/1.1"], logger: Logger
  ) throws -> (current: @Sendable () -> NIOSSLContext, services: [any Service]) {
    let files = try Reloading(files: [tls.certificate, tls.key], logger: logger) { () throws(CommandFailure) in
      do throws(Fault) {
        return try read(tls, keys: prefix, protocols: protocols)
      } catch {
        throw CommandFailure("\(error.text) \(error.remedy)")
      }
    }
    let watch = CertificateWatch(clock: .system, logger: logger) { [files.current.leaf] }
    return ({ files.current.context }, [files, watch])
  }

  /// Which file cannot be used, and what to do about it: two sentences.
  struct Fault: Error {
    let text: String
    let remedy: String
  }

  /// - Parameters: as `reloading`.
  static func read(
    _ tls: RelayConfiguration.TLS, keys prefix: String, protocols: [String] = []
  ) throws(Fault) -> ServerCertificate {
    let chain = try read(tls.certificate, key: "\(prefix).certificate", "the chain in PEM, leaf first") {
      let chain = try NIOSSLCertificate.fromPEMFile(tls.certificate)
      guard !chain.isEmpty else { throw NIOSSLError.failedToLoadCertificate }
      return chain
    }
    let key = try read(tls.key, key: "\(prefix).key", "the certificate's private key in PEM") {
      try NIOSSLPrivateKey(file: tls.key, format: .pem)
    }
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
    configuration.minimumTLSVersion = .tlsv12
    configuration.cipherSuiteValues = forwardSecret
    configuration.applicationProtocols = protocols
    do {
      let leaf = WatchedCertificate(
        holder: nil, kind: .listener(keys: prefix), serial: chain[0].serialNumber,
        validUntil: Timestamp(millis: Int64(chain[0].notValidAfter) * 1000))
      return ServerCertificate(context: try NIOSSLContext(configuration: configuration), leaf: leaf)
    } catch {
      // The library's words are the same for every reason.
      throw Fault(
        text: "\(prefix).certificate (\(tls.certificate)) and \(prefix).key (\(tls.key)) do not belong together.",
        remedy: "Put the key there that the certificate was made with.")
    }
  }

  /// Suites of TLS 1.2 with forward secrecy: a recorded connection stays secret even if the key leaks later. The last
  /// four are for phones of before 2015.
  private static let forwardSecret: [NIOTLSCipher] = [
    .TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, .TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    .TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, .TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    .TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, .TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    .TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, .TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
    .TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, .TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
  ]

  private static func read<Value>(
    _ file: String, key: String, _ what: String, _ body: () throws -> Value
  ) throws(Fault) -> Value {
    let remedy = "It has to name \(what), which this user may read."
    guard access(file, R_OK) == 0 else {
      throw Fault(text: "\(key): \(file) cannot be read: \(FaultWords.ofSystem(errno)).", remedy: remedy)
    }
    do {
      return try body()
    } catch {
      throw Fault(text: "\(key): \(file) cannot be used: \(FaultWords.of(error)).", remedy: remedy)
    }
  }
}
