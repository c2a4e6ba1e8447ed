import HTTPTypes
import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

// The common parts of requests that create and describe devices (reference 1.2, 1.4).

extension Request {
  /// The credentials that the request creates; a device id in them means nothing.
  /// - Throws: `.unauthorized` when they are missing or malformed.
  func newCredentials() throws(Problem) -> BasicCredentials {
    guard let credentials = BasicCredentials(creating: headers[.authorization]) else { throw Problem(.unauthorized) }
    return credentials
  }

  /// The body, when it is the attributes of a device to be.
  /// - Throws: as `jsonBody`; `.malformedBody`, `.deviceNameTooLong`.
  func attributes() async throws(Problem) -> AccountAttributes {
    try await jsonBody(max: WireLimits.smallRequestBytesMax).attributes()
  }

  /// The client's name for itself, cut to the length that is kept.
  var signalAgent: String? { headers[.signalAgent].map(AccountAttributes.keptAgent) }
}

extension ByteBuffer {
  /// A device's attributes. - Throws: `.malformedBody`, `.deviceNameTooLong`.
  func attributes() throws(Problem) -> AccountAttributes {
    let attributes = try decodeJSON(AccountAttributes.decode)
    try attributes.checkName()
    return attributes
  }
}

extension DeviceContext {
  /// - Throws: `.unauthorized` unless device 1 asks (reference 1.14).
  func requireMaster() throws(Problem) {
    guard caller.address.device == .master else { throw Problem(.unauthorized) }
  }
}
