import OrderedCollections
import Push
import RelayCore

/// Reads one entry's options and notes every fault on the way.
struct PushAppReader {
  private let name: String
  private let options: JSONObject
  private var read: Set<String> = []
  private(set) var faults: [PushAppFault] = []
  private(set) var warnings: [PushAppFault] = []

  init(name: String, options: JSONObject) {
    self.name = name
    self.options = options
  }

  /// - Returns: nil when there is a fault, and then `faults` is not empty.
  mutating func app() -> PushApp? {
    let service: PushApp.Service?
    switch choice("type", ["apns", "gcm", "webpush"], isNeeded: true) {
    case "apns": service = apns().map { .apns($0) }
    case "gcm": service = fcm()
    case "webpush": service = webPush().map { .webPush($0) }
    default: return nil
    }
    let inflightMax = whole("inflight_request_limit", 1...1_000_000) ?? 512
    for option in options.keys where !read.contains(option.text) {
      warnings.append(
        PushAppFault(app: name, option: option.text, text: "is not an option of this type, and has no effect"))
    }
    guard let service, faults.isEmpty else { return nil }
    return PushApp(name: name, inflightMax: inflightMax, service)
  }

  // MARK: The services

  private mutating func apns() -> PushApp.APNs? {
    let platform = choice("platform", ["production", "prod", "sandbox"])
    let kind = choice("push_type", APNsKind.allCases.map(\.rawValue))
    let converts = boolean("convert_device_token_to_hex")
    let sendsCounts = boolean("send_badge_counts")
    guard let authentication = apnsAuthentication() else { return nil }
    var apns = PushApp.APNs(authentication)
    apns.isSandbox = platform == "sandbox"
    apns.pushType = kind.flatMap { APNsKind(rawValue: $0) }
    apns.convertsDeviceToken = converts ?? true
    apns.sendsCounts = sendsCounts ?? true
    return apns
  }

  private mutating func apnsAuthentication() -> PushApp.APNs.Authentication? {
    let (certificate, keyFile) = (text("certfile"), text("keyfile"))
    let (keyID, teamID, topic) = (text("key_id"), text("team_id"), text("topic"))
    if let certificate {
      if topic != nil { warn("topic", "has no effect beside certfile: the certificate names the topic") }
      return .certificate(file: certificate)
    }
    guard let keyFile else {
      if !options.keys.contains("keyfile") { fault(nil, "needs certfile, or keyfile with key_id, team_id and topic") }
      return nil
    }
    for (option, value) in [("key_id", keyID), ("team_id", teamID), ("topic", topic)] where value == nil {
      if options[JSONName(option)] == nil { fault(option, "is needed beside keyfile") }
    }
    guard let keyID, let teamID, let topic else { return nil }
    return .token(keyFile: keyFile, keyID: keyID, teamID: teamID, topic: topic)
  }

  private mutating func fcm() -> PushApp.Service? {
    let version = choice("api_version", ["legacy", "v1"])
    let options = object("fcm_options") ?? [:]
    if let android = options["android"], android.object == nil { fault("fcm_options", "android must be an object") }
    let sendsCounts = boolean("send_badge_counts") ?? true
    let connectionsMax = connectionsMax()
    guard version == "v1" else {
      if version == nil {
        warn("api_version", "is not given, which means legacy: a service that Google switched off in 2024")
      }
      guard let key = text("api_key", isNeeded: true) else { return nil }
      var legacy = PushApp.FCMLegacy(key: Secret(key))
      (legacy.options, legacy.sendsCounts, legacy.connectionsMax) = (options, sendsCounts, connectionsMax)
      return .fcmLegacy(legacy)
    }
    let project = text("project_id", isNeeded: true)
    guard let file = text("service_account_file", isNeeded: true), let project else { return nil }
    var fcm = PushApp.FCM(projectID: project, serviceAccountFile: file)
    (fcm.options, fcm.sendsCounts, fcm.connectionsMax) = (options, sendsCounts, connectionsMax)
    return .fcm(fcm)
  }

  private mutating func webPush() -> PushApp.WebPush? {
    let endpoints = texts("allowed_endpoints")
    // Push services keep a push for four weeks at most.
    let ttl = whole("ttl", 0...2_419_200)
    let connectionsMax = connectionsMax()
    let key = text("vapid_private_key", isNeeded: true)
    guard let contact = text("vapid_contact_email", isNeeded: true), let key else { return nil }
    var webPush = PushApp.WebPush(keyFile: key, contact: contact)
    webPush.allowedEndpoints = endpoints
    webPush.ttl = .seconds(ttl ?? 900)
    webPush.connectionsMax = connectionsMax
    return webPush
  }

  private mutating func connectionsMax() -> Int { whole("max_connections", 1...10_000) ?? 20 }

  // MARK: Values

  /// nil for an option that is not there, or says nothing.
  private mutating func value(_ option: String) -> JSONValue? {
    read.insert(option)
    let value = options[JSONName(option)]
    return value == .null ? nil : value
  }

  private mutating func text(_ option: String, isNeeded: Bool = false) -> String? {
    guard let value = value(option) else {
      if isNeeded { fault(option, "is needed") }
      return nil
    }
    guard case .text(let text) = value, !text.isEmpty else {
      fault(option, "expects text that is not empty")
      return nil
    }
    return text
  }

  private mutating func choice(_ option: String, _ words: [String], isNeeded: Bool = false) -> String? {
    guard value(option) != nil || isNeeded else { return nil }
    guard let word = value(option)?.text, words.contains(word) else {
      fault(option, "expects one of \(words.joined(separator: ", "))")
      return nil
    }
    return word
  }

  private mutating func boolean(_ option: String) -> Bool? {
    guard let value = value(option) else { return nil }
    guard case .boolean(let boolean) = value else {
      fault(option, "expects true or false")
      return nil
    }
    return boolean
  }

  private mutating func whole(_ option: String, _ range: ClosedRange<Int>) -> Int? {
    guard let value = value(option) else { return nil }
    guard let number = value.integer.flatMap({ Int(exactly: $0) }), range.contains(number) else {
      fault(option, "expects a whole number from \(range.lowerBound) to \(range.upperBound)")
      return nil
    }
    return number
  }

  private mutating func object(_ option: String) -> JSONObject? {
    guard let value = value(option) else { return nil }
    guard case .object(let object) = value else {
      fault(option, "expects options of its own")
      return nil
    }
    return object
  }

  private mutating func texts(_ option: String) -> [String]? {
    guard let value = value(option) else { return nil }
    guard let texts = value.list?.map(\.text), !texts.contains(nil) else {
      fault(option, "expects a list of texts")
      return nil
    }
    return texts.compactMap(\.self)
  }

  private mutating func fault(_ option: String?, _ text: String) {
    faults.append(PushAppFault(app: name, option: option, text: text))
  }
  private mutating func warn(_ option: String, _ text: String) {
    warnings.append(PushAppFault(app: name, option: option, text: text))
  }
}
