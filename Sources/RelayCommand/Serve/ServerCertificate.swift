import Glibc
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
      do throws(Fault) {
        return try read(tls, keys: prefix).context
      } catch {
        throw CommandFailure("\(error.text) \(error.remedy)")
      }
    }
  }

  /// Which file cannot be used, and what to do about it: two sentences.
  struct Fault: Error {
    let text: String
    let remedy: String
  }

  /// - Parameter prefix: of the keys `certificate` and `key` in the configuration.
  /// - Returns: the chain, leaf first, which is not empty, and all in one.
  static func read(
    _ tls: RelayConfiguration.TLS, keys prefix: String
  ) throws(Fault) -> (chain: [NIOSSLCertificate], context: NIOSSLContext) {
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
    configuration.applicationProtocols = ["h2", "http/1.1"]
    do {
      return (chain, try NIOSSLContext(configuration: configuration))
    } catch {
      // The library's words are the same for every reason.
      throw Fault(
        text: "\(prefix).certificate (\(tls.certificate)) and \(prefix).key (\(tls.key)) do not belong together.",
        remedy: "Put the key there that the certificate was made with.")
    }
  }

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
