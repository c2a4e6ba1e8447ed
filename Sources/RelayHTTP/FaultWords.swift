import FoundationEssentials
import Glibc
import NIOCore
import NIOPosix
import NIOSSL

/// Faults that libraries below us report, in an operator's words: theirs name calls, codes and lines of code.
package enum FaultWords {
  /// - Returns: a clause without a full stop, such as `nobody listens there`; for an error of ours its own words.
  package static func of(_ error: any Error) -> String { known(error) ?? "\(error)" }

  /// As `of(_:)`, for requests whose texts must not be told: of an error that is not known its type alone.
  package static func brief(_ error: any Error) -> String { known(error) ?? "\(type(of: error))" }

  private static func known(_ error: any Error) -> String? {
    switch error {
    case let error as IOError: ofSystem(error.errnoCode)
    case let error as SocketAddressError.UnknownHost: unknown(error.host)
    case let error as NIOConnectionError: ofConnection(error)
    case ChannelError.connectTimeout: "no answer to the connection attempt"
    case is ChannelError: "the connection ended"
    case let error as NIOSSLError: ofTLS(error)
    case let error as BoringSSLError: ofTLS(error)
    case is NIOSSLExtraError: "the certificate is not one for this name"
    case let error as POSIXError: ofSystem(error.code.rawValue)
    case let error as CocoaError: ofFile(error)
    default: nil
    }
  }

  /// - Parameter code: an `errno`.
  package static func ofSystem(_ code: Int32) -> String {
    switch code {
    case EADDRINUSE: "it is in use by another program"
    case EADDRNOTAVAIL: "this host has no such address"
    case EACCES, EPERM: "this user may not do that"
    case ENOENT: "there is no such file or folder"
    case EEXIST, ENOTDIR: "a file stands in the way"
    case ENOSPC: "the disk is full"
    case EROFS: "the disk is read-only"
    case EMFILE, ENFILE: "no more files can be opened (ulimit -n)"
    case ECONNREFUSED: "nobody listens there"
    case ECONNRESET, EPIPE: "the connection was cut"
    case ETIMEDOUT: "no answer to the connection attempt"
    case EHOSTUNREACH, ENETUNREACH: "no way leads to that address"
    default: String(cString: strerror(code))
    }
  }

  static func unknown(_ host: String) -> String { "the name \(host) does not resolve to an address" }

  /// Each address of the name was tried; the first one's fault is told.
  private static func ofConnection(_ error: NIOConnectionError) -> String {
    error.connectionErrors.first.map { of($0.error) } ?? unknown(error.host)
  }

  private static func ofTLS(_ error: NIOSSLError) -> String {
    switch error {
    case .handshakeFailed(let reason): ofTLS(reason)
    case .noSuchFilesystemObject: ofSystem(ENOENT)
    case .failedToLoadCertificate: "it holds no certificate in PEM"
    case .failedToLoadPrivateKey: "it holds no private key in PEM"
    case .unableToValidateCertificate, .noCertificateToValidate: "the certificate is not trusted"
    case .uncleanShutdown: "the connection was cut"
    default: "TLS failed"
    }
  }

  private static func ofTLS(_ error: BoringSSLError) -> String {
    switch error {
    case .sslError(let stack) where stack == [.eofDuringHandshake]: "the connection was closed in the handshake"
    case .sslError(let stack), .unknownError(let stack): stack.lazy.compactMap(ofTLS).first ?? "TLS failed"
    default: "TLS failed"
    }
  }

  /// Its text is `Error: NUMBER error:CODE:LIBRARY:FUNCTION:REASON at FILE:LINE`.
  private static func ofTLS(_ error: BoringSSLInternalError) -> String? {
    let parts = error.description.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count > 5, let reason = parts[5].split(separator: " ").first else { return nil }
    return switch reason {
    case "CERTIFICATE_VERIFY_FAILED": "the certificate is not trusted"
    case "KEY_VALUES_MISMATCH": "certificate and key do not belong together"
    case "WRONG_VERSION_NUMBER", "HTTP_REQUEST": "what answers there does not speak TLS"
    default: "TLS failed (\(reason.lowercased().replacing("_", with: " ")))"
    }
  }

  private static func ofFile(_ error: CocoaError) -> String {
    switch error.code {
    case .fileNoSuchFile, .fileReadNoSuchFile: ofSystem(ENOENT)
    case .fileWriteFileExists: ofSystem(EEXIST)
    case .fileReadNoPermission, .fileWriteNoPermission: ofSystem(EACCES)
    case .fileWriteOutOfSpace: ofSystem(ENOSPC)
    case .fileWriteVolumeReadOnly: ofSystem(EROFS)
    default: "the system refuses it (\(error.code.rawValue))"
    }
  }
}

/// Why a listener cannot begin, and what to do about it.
package struct ListenFault: Error, Equatable {
  /// A sentence.
  package let text: String
  /// One more.
  package let remedy: String

  /// - Parameters:
  ///   - error: what listening at `host` and `port` failed with.
  ///   - keys: what the keys of both begin with in the configuration, such as `client`.
  /// - Returns: nil for an error that tells of something else.
  package init?(_ error: any Error, at host: String, _ port: Int, keys: String) {
    switch error {
    case let error as IOError: self.init(system: error.errnoCode, host, port, keys)
    case is SocketAddressError.UnknownHost, is SocketAddressError:
      self.init(
        text: "The name \(host) does not resolve to an address.",
        remedy: "Set \(keys).host to an address of this host, such as 127.0.0.1.")
    default: return nil
    }
  }

  private init(text: String, remedy: String) {
    self.text = text
    self.remedy = remedy
  }

  private init(system code: Int32, _ host: String, _ port: Int, _ keys: String) {
    switch code {
    case EADDRINUSE:
      text = "Port \(port) on \(host) is in use by another program."
      remedy = "Stop it, or set \(keys).port to another port."
    case EADDRNOTAVAIL:
      text = "This host has no address \(host) to listen on."
      remedy = "Set \(keys).host to one of its addresses, or to 0.0.0.0 for all of them."
    case EACCES, EPERM:
      text = "This user may not listen on port \(port) of \(host)."
      remedy = "Set \(keys).port to one above 1023, or give the program the capability CAP_NET_BIND_SERVICE."
    default:
      text = "Port \(port) on \(host) cannot be listened on: \(FaultWords.ofSystem(code))."
      remedy = "Check \(keys).host and \(keys).port."
    }
  }
}
