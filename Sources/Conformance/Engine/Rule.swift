/// One thing that a server of this API does, and how to see it.
package struct Rule: Sendable {
  /// The section of the API's reference that it comes from, such as `1.6`.
  package let section: String
  /// One line in the present tense.
  package let text: String
  /// Since when clients rely on it.
  package let since: Generation
  /// Returns when the rule is kept. Throws `RuleFailure` when it is not, `RuleLimited` and `RuleSkipped` when that
  /// cannot be told.
  let run: @Sendable (Session) async throws -> Void

  init(
    _ section: String, _ text: String, _ since: Generation = .g1,
    run: @escaping @Sendable (Session) async throws -> Void
  ) {
    self.section = section
    self.text = text
    self.since = since
    self.run = run
  }
}

/// The generations of the API, by the clients that speak them (reference 0.1).
package enum Generation: String, Sendable {
  /// One device, Dec 2013.
  case g1 = "G1"
  /// Devices, registration ids, 409 and 410, Feb 2014.
  case g2 = "G2"
  /// Signed prekeys and receipts, Jul 2014.
  case g3 = "G3"
  /// Sync messages, fetching, device management, Feb 2015.
  case g4 = "G4"
  /// What relays of this project add without disturbing anybody.
  case ours = "ours"
}

/// A part of the suite: its rules run one after the other, in this order.
package struct RuleArea: Sendable {
  package let name: String
  package let rules: [Rule]
  init(_ name: String, _ rules: [Rule]) {
    self.name = name
    self.rules = rules
  }
}

/// Every rule there is.
package enum ConformanceSuite {
  package static let areas: [RuleArea] = [
    RuleArea("Conventions", ConventionRules.all), RuleArea("Credentials", CredentialRules.all),
    RuleArea("Registration", RegistrationRules.all), RuleArea("Registration lock", RegistrationLockRules.all),
    RuleArea("Push registration and attributes", PushRegistrationRules.all),
    RuleArea("Prekeys, version 1", KeysV1Rules.all), RuleArea("Prekeys, version 2", KeysV2Rules.all),
    RuleArea("Submitting messages", MessageRules.all), RuleArea("Device validation", DeviceValidationRules.all),
    RuleArea("Messages of the first generation", LegacyMessageRules.all), RuleArea("Mailbox", MailboxRules.all),
    RuleArea("Receipts", ReceiptRules.all), RuleArea("Attachments", AttachmentRules.all),
    RuleArea("Directory", DirectoryRules.all + DirectoryChangesRules.all), RuleArea("Devices", DeviceRules.all),
    RuleArea("WebSockets", SocketRules.all), RuleArea("Live delivery", DeliveryRules.all),
    RuleArea("WebSockets of the first dialect", JSONSocketRules.all), RuleArea("Provisioning", ProvisioningRules.all),
    RuleArea("Clients' habits", ToleranceRules.all), RuleArea("Clients that name no relay", AcrossRules.all),
  ]

  /// The areas with only those rules that `filter` names: a section (with those below it), or a part of an area's name
  /// or a rule's text in any case. nil names all.
  package static func areas(matching filter: String?) -> [RuleArea] {
    guard let filter = filter?.lowercased() else { return areas }
    return areas.compactMap { area in
      let isWhole = area.name.lowercased().contains(filter)
      let rules = area.rules.filter { rule in
        isWhole || rule.section == filter || rule.section.hasPrefix(filter + ".")
          || rule.text.lowercased().contains(filter)
      }
      return rules.isEmpty ? nil : RuleArea(area.name, rules)
    }
  }
}
