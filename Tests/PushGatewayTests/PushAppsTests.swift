import OrderedCollections
import Push
import PushGateway
import RelayCore
import TestTags
import Testing

/// `push-gateway.apps`, with the reference's options.
@Suite(.tags(.unit)) struct PushAppsTests {
  private static func faults(_ text: String) throws -> [String] {
    let tree = try JSONValue(text)
    do throws(PushAppFaults) {
      _ = try PushApps(tree)
      return []
    } catch {
      return error.faults.map(\.description)
    }
  }

  @Test func `every option is read`() throws {
    let apps = try PushApps(
      try JSONValue(
        #"""
        {"a": {"type": "apns", "certfile": "/c.pem", "platform": "sandbox", "push_type": "voip",
               "convert_device_token_to_hex": false, "send_badge_counts": false, "inflight_request_limit": 7},
         "b": {"type": "apns", "keyfile": "/k.p8", "key_id": "K", "team_id": "T", "topic": "t", "platform": "prod"},
         "c": {"type": "gcm", "api_version": "v1", "project_id": "p", "service_account_file": "/s.json",
               "fcm_options": {"android": {"ttl": "1s"}}, "max_connections": 5},
         "d": {"type": "gcm", "api_version": "legacy", "api_key": "secret"},
         "e.*": {"type": "webpush", "vapid_private_key": "/v.pem", "vapid_contact_email": "a@x", "ttl": 60,
                 "allowed_endpoints": ["*.example"], "max_connections": 3}}
        """#))
    #expect(apps.warnings.isEmpty)
    var certificate = PushApp.APNs(.certificate(file: "/c.pem"))
    (certificate.isSandbox, certificate.pushType, certificate.convertsDeviceToken) = (true, .voip, false)
    certificate.sendsCounts = false
    var fcm = PushApp.FCM(projectID: "p", serviceAccountFile: "/s.json")
    (fcm.options, fcm.connectionsMax) = (["android": .object(["ttl": .text("1s")])], 5)
    var web = PushApp.WebPush(keyFile: "/v.pem", contact: "a@x")
    (web.ttl, web.allowedEndpoints, web.connectionsMax) = (.seconds(60), ["*.example"], 3)
    #expect(
      apps.apps == [
        PushApp(name: "a", inflightMax: 7, .apns(certificate)),
        PushApp(name: "b", .apns(PushApp.APNs(.token(keyFile: "/k.p8", keyID: "K", teamID: "T", topic: "t")))),
        PushApp(name: "c", .fcm(fcm)),
        PushApp(name: "d", .fcmLegacy(PushApp.FCMLegacy(key: Secret("secret")))),
        PushApp(name: "e.*", .webPush(web)),
      ])
  }

  @Test func `all faults are told at once, with their places and without secrets`() throws {
    let faults = try Self.faults(
      #"""
      {"a": {"type": "apns", "keyfile": "/k", "team_id": 5, "platform": "moon"},
       "b": {"type": "gcm", "api_version": "v1", "api_key": "secret", "max_connections": 0},
       "c": {"type": "webpush", "vapid_contact_email": "a@x", "ttl": "900", "allowed_endpoints": [1]},
       "d": {"type": "fax"}, "e": 5, "f": {"type": "apns"}, "g": {"type": "gcm", "api_key": ["secret"]}}
      """#)
    #expect(
      faults == [
        "a: platform: expects one of production, prod, sandbox", "a: team_id: expects text that is not empty",
        "a: key_id: is needed beside keyfile", "a: topic: is needed beside keyfile",
        "b: max_connections: expects a whole number from 1 to 10000", "b: project_id: is needed",
        "b: service_account_file: is needed",
        "c: allowed_endpoints: expects a list of texts", "c: ttl: expects a whole number from 0 to 2419200",
        "c: vapid_private_key: is needed", "d: type: expects one of apns, gcm, webpush",
        "e: expects options, each on a line of its own",
        "f: needs certfile, or keyfile with key_id, team_id and topic",
        "g: api_key: expects text that is not empty",
      ])
  }

  @Test(arguments: ["{}", "[]", "null", "5"])
  func `a gateway without apps does not start`(text: String) throws {
    #expect(try Self.faults(text) == ["expects at least one app id or pattern with its options"])
  }

  @Test func `a setting without effect is warned of`() throws {
    let apps = try PushApps(
      try JSONValue(
        #"{"a": {"type": "gcm", "api_key": "k", "colour": "red"}, "b": {"type": "apns", "certfile": "c", "topic": "t"}}"#
      ))
    #expect(
      apps.warnings.map(\.description) == [
        "a: api_version: is not given, which means legacy: a service that Google switched off in 2024",
        "a: colour: is not an option of this type, and has no effect",
        "b: topic: has no effect beside certfile: the certificate names the topic",
      ])
  }
}
