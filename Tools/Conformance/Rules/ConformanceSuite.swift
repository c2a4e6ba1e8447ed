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
