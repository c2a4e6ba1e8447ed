// Records that hold keys, names and message bodies as plain text or bytes: they are as little to be shown as those.

extension Account: Sensitive { package static let kind: StaticString = "account" }
extension Device: Sensitive { package static let kind: StaticString = "device record" }
extension AccountAttributes: Sensitive { package static let kind: StaticString = "attributes" }
extension DeviceChange: Sensitive { package static let kind: StaticString = "device change" }

extension PreKey: Sensitive { package static let kind: StaticString = "prekey" }
extension SignedPreKey: Sensitive { package static let kind: StaticString = "signed prekey" }
extension PreKeyUpload: Sensitive { package static let kind: StaticString = "prekey upload" }
extension DrawnPreKey: Sensitive { package static let kind: StaticString = "drawn prekey" }

extension SubmittedMessage: Sensitive { package static let kind: StaticString = "message" }
extension Envelope: Sensitive { package static let kind: StaticString = "envelope" }
