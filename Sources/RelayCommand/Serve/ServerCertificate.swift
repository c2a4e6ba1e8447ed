import Logging
import NIOSSL
import RelayConfiguration
import RelayHTTP

/// What a listener shows its clients: TLS 1.2 or later, with HTTP/2 or HTTP/1.1, reloaded when the files change.
enum ServerCertificate {
  /// - Parameter prefix: of the keys `certificate` and `key` in the configuration.
  /// - Throws: `CommandFailure` when they cannot be used.
  static func context(
    _ tls: RelayConfiguration.TLS, keys prefix: String, logger: Logger
  ) throws -> Reloading<NIOSSLContext, CommandFailure> {
    try Reloading(files: [tls.certificate, tls.key], logger: logger) { () throws(CommandFailure) in
      do {
        let chain = try NIOSSLCertificate.fromPEMFile(tls.certificate)
        let key = try NIOSSLPrivateKey(file: tls.key, format: .pem)
        var configuration = TLSConfiguration.makeServerConfiguration(
          certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["h2", "http/1.1"]
        return try NIOSSLContext(configuration: configuration)
      } catch {
        throw CommandFailure(
          "\(prefix).certificate (\(tls.certificate)) and \(prefix).key (\(tls.key)) cannot be used: \(error). "
            + "Both must be PEM, readable, and belong together.")
      }
    }
  }
}
