import HTTPTypes
import Hummingbird
import RelayCore
import RelayHTTP

// What the requests that create and describe devices have in common (reference 1.2, 1.4).

extension Request {
  /// The credentials that the request creates; a device id in them means nothing.
  /// - Throws: `.unauthorized` when they are missing or malformed.
  func newCredentials() throws(Problem) -> BasicCredentials {
    guard let credentials = BasicCredentials(header: headers[.authorization]) else { throw Problem(.unauthorized) }
    return credentials
  }

  /// The body, when it is a device's attributes.
  /// - Throws: as `jsonBody`; `.malformedBody`, `.deviceNameTooLong`.
  func attributes() async throws(Problem) -> AccountAttributes {
    let body = try await jsonBody(max: WireLimits.smallRequestBytesMax)
    let attributes = try body.decodeJSON(AccountAttributes.decode)
    try attributes.checkName()
    return attributes
  }

  /// What the client names itself, as much of it as is kept.
  var signalAgent: String? {
    headers[.signalAgent].map { String($0.prefix(AccountAttributes.agentCharactersMax)) }
  }
}

extension DeviceContext {
  /// - Throws: `.unauthorized` unless device 1 asks (reference 1.14).
  func requireMaster() throws(Problem) {
    guard caller.address.device == .master else { throw Problem(.unauthorized) }
  }
}
