import HTTPTypes
import Hummingbird
import RelayCore

/// The pages of records: attempts to wake a device, and changes by operators.
struct ConsoleRecordPages: Sendable {
  let console: Console

  @Sendable func push(_ visit: ConsoleVisit) async throws -> Response {
    let asked = visit.request.uri.queryParameters.get("device")
    let pages = ConsolePages(now: visit.parts.clock.now())
    var values: ConsolePages.Values = [:]
    var status = HTTPResponse.Status.ok
    if let asked {
      values["device"] = asked
      if let device = try await device(asked, visit.parts),
        let attempts = try await visit.parts.console.pushHistory(of: device)
      {
        values["isAsked"] = true
        values["attempts"] = pages.attempts(attempts)
      } else {
        status = .notFound
        values["fault"] = "There is no such device here."
        // The text may be a number: it goes no further.
        values["device"] = ""
      }
    }
    return console.draw("push", "Push history", here: "/console/push", status: status, to: visit.session, values)
  }

  /// `HANDLE.DEVICE`, or a handle for device 1.
  private func device(_ text: String, _ parts: OperatorAPI.Parts) async throws -> DeviceAddress? {
    let words = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = words.first, let handle = AccountHandle(String(first)),
      let device = words.count == 2 ? DeviceID(text: words[1]) : .master,
      let number = try await parts.store.number(of: handle)
    else { return nil }
    return DeviceAddress(number, device)
  }

  @Sendable func audit(_ visit: ConsoleVisit) async throws -> Response {
    let before = try visit.request.whole("before", in: 1...Int64.max, otherwise: .max)
    let entries = try await visit.parts.store.auditEntries(before: before, about: nil, limit: Self.pageMax)
    let values = ConsolePages(now: visit.parts.clock.now()).audit(entries, isWholePage: entries.count == Self.pageMax)
    return console.draw("audit", "Audit log", here: "/console/audit", to: visit.session, values)
  }

  private static let pageMax = 50
}
