@testable import Federation
@testable import RelayCore

/// Invitations, as text and as the JSON inside of it: the first byte says which one it is.
func fuzzInvitations(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  let text = selector % 2 == 0 ? body.text : InvitationCode.prefix + Base64.encodeURLSafe(body)
  guard let code = try? InvitationCode(text) else { return }
  demand((try? InvitationCode(code.text)) == code, "an invitation comes back")
  demand(code.secret.count == InvitationCode.secretByteCount && code.fingerprint.count == 32, "it is whole")
}
