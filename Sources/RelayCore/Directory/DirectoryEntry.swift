/// The directory's knowledge of one token.
package struct DirectoryEntry: Sendable, Equatable {
  package let token: ContactToken
  /// nil for an account of this relay.
  package let relay: RelayName?
  package let supportsSMS: Bool
  package let voice: Bool
  package init(token: ContactToken, relay: RelayName?, supportsSMS: Bool, voice: Bool) {
    self.token = token
    self.relay = relay
    self.supportsSMS = supportsSMS
    self.voice = voice
  }
}

/// One account in the listing that peers read (reference 1.13.2, `user_tokens`).
package struct ListedAccount: Sendable, Equatable {
  package let token: ContactToken
  package let isInactive: Bool
  package let supportsSMS: Bool
  package let voice: Bool
  package init(token: ContactToken, isInactive: Bool, supportsSMS: Bool, voice: Bool) {
    self.token = token
    self.isInactive = isInactive
    self.supportsSMS = supportsSMS
    self.voice = voice
  }
}
