// TLS as this relay wants it of Redis, and the words for what OpenSSL refuses.

import COpenSSL
import Glibc
import RelayCore

/// The TLS context of one connection. It is made anew for each, so that a renewed file counts from the next one on.
struct RedisTLS: ~Copyable {
  private let context: OpaquePointer

  /// - Throws: when a file cannot be used.
  init(_ files: RedisTLSFiles) throws(RedisLinkFault) {
    guard let context = SSL_CTX_new(TLS_client_method()) else { throw RedisLinkFault("OpenSSL has no memory left") }
    do throws(RedisLinkFault) {
      try Self.prepare(context, files)
    } catch {
      SSL_CTX_free(context)
      throw error
    }
    self.context = context
  }

  deinit { SSL_CTX_free(context) }

  /// A client's side on `descriptor`. It goes on only with a server whose certificate names `host` and comes from a CA
  /// that is trusted. The caller frees it.
  func start(host: String, on descriptor: Int32) throws(RedisLinkFault) -> OpaquePointer {
    guard let ssl = SSL_new(context) else { throw RedisLinkFault("OpenSSL has no memory left") }
    let verification = SSL_get0_param(ssl)
    // A name counts where RFC 9525 has it, in subjectAltName, and a wildcard for one whole label.
    X509_VERIFY_PARAM_set_hostflags(
      verification, UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT) | UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
    let isSet =
      if Self.isAddress(host) {
        X509_VERIFY_PARAM_set1_ip_asc(verification, host)
      } else {
        // An address is not named to the server (RFC 6066, section 3).
        SSL_set1_host(ssl, host) & Int32(relay_tls_set_server_name(ssl, host))
      }
    guard isSet == 1, SSL_set_fd(ssl, descriptor) == 1 else {
      SSL_free(ssl)
      throw RedisLinkFault("\(host) is no name that a certificate could hold", isRefusal: true)
    }
    relay_tls_write_in_parts(ssl)
    SSL_set_connect_state(ssl)
    return ssl
  }

  private static func prepare(_ context: OpaquePointer, _ files: RedisTLSFiles) throws(RedisLinkFault) {
    ERR_clear_error()
    _ = relay_tls_set_oldest(context, TLS1_2_VERSION)
    relay_tls_ask_nobody(context)
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
    if let authority = files.authority {
      try check(SSL_CTX_load_verify_locations(context, authority, nil), "ca", authority, "certificates")
    } else {
      // If the system has none, no server is trusted.
      _ = SSL_CTX_set_default_verify_paths(context)
    }
    if let certificate = files.certificate {
      try check(SSL_CTX_use_certificate_chain_file(context, certificate), "certificate", certificate, "certificates")
    }
    if let key = files.key {
      try check(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM), "key", key, "the certificate's key")
    }
  }

  private static func check(_ code: Int32, _ key: String, _ path: String, _ wanted: String) throws(RedisLinkFault) {
    guard code != 1 else { return }
    throw RedisLinkFault(
      "coordination.tls.\(key): \(path) cannot be read, or does not hold \(wanted) in PEM, without a passphrase",
      isRefusal: true)
  }

  static func isAddress(_ host: String) -> Bool {
    var bytes = in6_addr()
    return inet_pton(AF_INET, host, &bytes) == 1 || inet_pton(AF_INET6, host, &bytes) == 1
  }
}

// MARK: - Words

extension RedisLinkFault {
  /// Why OpenSSL's last call on `ssl` failed.
  /// - Returns: nil when the connection just ended.
  static func ofTLS(_ ssl: OpaquePointer, host: String) -> RedisLinkFault? {
    let verdict = Int32(clamping: SSL_get_verify_result(ssl))
    if verdict != X509_V_OK { return refusal("the certificate of \(host) is refused: \(words(verdict))") }
    switch relay_tls_error_reason() {
    case 0, SSL_R_UNEXPECTED_EOF_WHILE_READING: return nil
    case SSL_R_WRONG_VERSION_NUMBER, SSL_R_PACKET_LENGTH_TOO_LONG, SSL_R_HTTP_REQUEST:
      return refusal("\(host) does not speak TLS at this port: is it the one of Redis's tls-port?")
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return refusal("Redis wants a client certificate: set coordination.tls.certificate and coordination.tls.key")
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      return refusal("Redis refused the handshake: it may want a client certificate (coordination.tls.certificate)")
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA, SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
      SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
      SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, SSL_R_TLSV1_ALERT_DECRYPT_ERROR, SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return refusal("Redis refused our client certificate: check coordination.tls.certificate and its end")
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_NO_PROTOCOLS_AVAILABLE:
      return refusal("Redis offers no TLS of version 1.2 or newer (tls-protocols)")
    case let reason: return RedisLinkFault("TLS failed with OpenSSL's reason \(reason)")
    }
  }

  private static func refusal(_ reason: String) -> RedisLinkFault { RedisLinkFault(reason, isRefusal: true) }

  private static func words(_ verdict: Int32) -> String {
    switch verdict {
    case X509_V_ERR_CERT_HAS_EXPIRED: "it has expired"
    case X509_V_ERR_CERT_NOT_YET_VALID: "it is not valid yet: check the clocks"
    case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
      "it is for another host: its subjectAltName must name this one"
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
      X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
      X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_ERR_CERT_UNTRUSTED:
      "no CA that is trusted has signed it (coordination.tls.ca)"
    case X509_V_ERR_INVALID_PURPOSE: "it is not for servers"
    default: String(cString: X509_verify_cert_error_string(Int(verdict)))
    }
  }
}
