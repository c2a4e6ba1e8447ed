import Foundation
import HTTPTypes
import Hummingbird
import Mustache
import RelayCore
import RelayHTTP

/// The operator's pages under `/console` (docs/console.md).
///
/// They are drawn here; a script draws them anew as events come, and all that is read works without it. Reading needs a
/// session, which a token opens; changing needs a change token too, and stands in the audit log under its name.
struct Console: Sendable {
  typealias Page = @Sendable (ConsoleVisit) async throws -> Response

  let relay: String
  let look: ConsoleLook
  let walks = ConsoleWalks()
  private let sessions: ConsoleSessions
  private let control: DrainControl
  private let library: MustacheLibrary
  private let parts: @Sendable () throws(APIProblem) -> OperatorAPI.Parts

  init(
    relay: String, look: ConsoleLook, sessions: ConsoleSessions, control: DrainControl,
    parts: @escaping @Sendable () throws(APIProblem) -> OperatorAPI.Parts
  ) throws {
    self.relay = relay
    self.look = look
    self.sessions = sessions
    self.control = control
    self.parts = parts
    library = try ConsoleTemplates.library()
  }

  func addRoutes(to router: Router<OperatorContext>) {
    let group = router.group("").add(middleware: ConsoleHeaders())
    group.get("/console/console.css") { _, _ in Response.asset(ConsoleStyle.css, "text/css; charset=utf-8") }
    group.get("/console/console.js") { _, _ in Response.asset(ConsoleStyle.script, "text/javascript; charset=utf-8") }
    group.get("/console/sign-in") { _, _ in signInPage(.ok, nil) }
    group.post("/console/sign-in", use: signIn)

    for page in ConsoleLivePage.allCases {
      group.get(RouterPath(page.path), use: reading { try await live(page, $0) })
    }
    let events = ConsoleEvents(console: self, sessions: sessions, control: control)
    group.get("/console/events", use: reading(events.stream))
    let peers = ConsolePeerPages(console: self)
    group.get("/console/peers/:peer", use: reading(peers.show))
    group.post("/console/peers/:peer/test", use: writing(peers.test))
    group.post("/console/peers/:peer/retry", use: writing(peers.retry))
    group.post("/console/peers/:peer/suspend", use: writing(peers.suspend))
    group.post("/console/peers/:peer/resume", use: writing(peers.resume))
    let records = ConsoleRecordPages(console: self)
    group.get("/console/push", use: reading(records.push))
    group.get("/console/audit", use: reading(records.audit))

    group.get("/console/unlock", use: reading(unlockPage))
    group.post("/console/unlock", use: writing(needsChanger: false, unlock))
    group.post(
      "/console/leave",
      use: writing(needsChanger: false) { visit in
        sessions.close(visit.session)
        return .seeOther("/console/sign-in", cookie: ConsoleCookie.gone)
      })
  }

  // MARK: Drawing

  /// - Parameter here: the path of the page in the menu.
  func draw(
    _ template: String, _ title: String, here: String? = nil, isLive: Bool = false, status: HTTPResponse.Status = .ok,
    to session: ConsoleSessions.Session?, _ values: ConsolePages.Values
  ) -> Response {
    let now = Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000))
    var all: ConsolePages.Values = ["title": title, "relay": relay, "isLive": isLive, "time": now.iso8601]
    if let session {
      all["session"] = true
      all["formKey"] = session.formKey
      all["pages"] = ConsoleMenu.entries.map {
        ["name": $0.name, "path": $0.path, "isHere": $0.path == here] as ConsolePages.Values
      }
    }
    return .page(status, fragment(template, all.merging(values) { $1 }))
  }

  func fragment(_ template: String, _ values: ConsolePages.Values) -> String {
    // Every template that is named stands in the library: a test draws them all.
    library.render(values, withTemplate: template) ?? ""
  }

  private func live(_ page: ConsoleLivePage, _ visit: ConsoleVisit) async throws -> Response {
    draw(
      page.template, page.title, here: page.path, isLive: true, to: visit.session,
      try await page.values(self, visit.parts))
  }

  private func refusal(_ error: any Error, to session: ConsoleSessions.Session?) -> Response {
    let problem = APIProblem(error)
    var response = draw(
      "refused", "Not done", status: problem.status, to: session,
      ["fault": (error as? ConsoleFault)?.description ?? problem.message])
    if let retry = problem.headers[.retryAfter] { response.headers[.retryAfter] = retry }
    return response
  }

  // MARK: Who may

  private func reading(_ page: @escaping Page) -> APIHandler {
    { request, context in
      guard let session = sessions.session(ConsoleCookie.value(of: request)) else {
        return .seeOther("/console/sign-in")
      }
      do {
        return try await page(ConsoleVisit(request, context, session, try parts(), ConsoleForm()))
      } catch {
        return refusal(error, to: session)
      }
    }
  }

  /// - Parameter needsChanger: whether a change token must have been given.
  private func writing(needsChanger: Bool = true, _ page: @escaping Page) -> APIHandler {
    { request, context in
      guard let session = sessions.session(ConsoleCookie.value(of: request)) else {
        return .seeOther("/console/sign-in")
      }
      do {
        let form = try await ConsoleForm(of: request)
        guard constantTimeEquals(Array((form["form"] ?? "").utf8), Array(session.formKey.utf8)) else {
          throw APIProblem(.forbidden, "foreign-form", "The form is not of this session: go back, load the page anew.")
        }
        if needsChanger, session.changer == nil {
          throw APIProblem(.forbidden, "read-only", "Enter a change token first: the page of the peer has a link.")
        }
        return try await page(ConsoleVisit(request, context, session, try parts(), form))
      } catch {
        return refusal(error, to: session)
      }
    }
  }

  // MARK: Signing in

  private func signInPage(_ status: HTTPResponse.Status, _ fault: String?) -> Response {
    guard !sessions.isOff else {
      return draw(
        "refused", "The console is off", status: .forbidden, to: nil,
        ["fault": "Set operator.read-tokens and operator.change-tokens, and send the process SIGHUP."])
    }
    var values: ConsolePages.Values = [:]
    values["fault"] = fault
    return draw("sign-in", "Sign in", status: status, to: nil, values)
  }

  @Sendable private func signIn(_ request: Request, _ context: OperatorContext) async throws -> Response {
    guard !sessions.isOff else { return signInPage(.forbidden, nil) }
    do {
      let form = try await ConsoleForm(of: request)
      switch sessions.open(with: form["token"] ?? "") {
      case .opened(let cookie): return .seeOther("/console", cookie: ConsoleCookie.field(cookie))
      case .wrong: return signInPage(.unauthorized, "That is no token of this relay.")
      case .tooMany(let seconds): return Self.late(signInPage(.tooManyRequests, Self.tooMany(seconds)), seconds)
      }
    } catch {
      return refusal(error, to: nil)
    }
  }

  @Sendable private func unlockPage(_ visit: ConsoleVisit) -> Response {
    unlockPage(visit, .ok, nil, back: visit.request.uri.queryParameters.get("back"))
  }

  private func unlockPage(
    _ visit: ConsoleVisit, _ status: HTTPResponse.Status, _ fault: String?, back: String?
  ) -> Response {
    var values: ConsolePages.Values = ["back": ConsoleMenu.back(to: back)]
    values["fault"] = fault
    return draw("unlock", "Allow changes", status: status, to: visit.session, values)
  }

  @Sendable private func unlock(_ visit: ConsoleVisit) async throws -> Response {
    let back = visit.form["back"]
    switch sessions.unlock(visit.session, with: visit.form["token"] ?? "") {
    case nil, .opened: return .seeOther(ConsoleMenu.back(to: back))
    case .wrong: return unlockPage(visit, .forbidden, "That token may change nothing here.", back: back)
    case .tooMany(let seconds):
      return Self.late(unlockPage(visit, .tooManyRequests, Self.tooMany(seconds), back: back), seconds)
    }
  }

  private static func tooMany(_ seconds: Int) -> String { "Too many wrong tokens came. Try again in \(seconds) s." }

  private static func late(_ response: Response, _ seconds: Int) -> Response {
    var response = response
    response.headers[.retryAfter] = "\(seconds)"
    return response
  }
}

/// A request of somebody who is signed in.
struct ConsoleVisit: Sendable {
  let request: Request
  let session: ConsoleSessions.Session
  let parts: OperatorAPI.Parts
  let form: ConsoleForm
  private let context: OperatorContext

  init(
    _ request: Request, _ context: OperatorContext, _ session: ConsoleSessions.Session, _ parts: OperatorAPI.Parts,
    _ form: ConsoleForm
  ) {
    self.request = request
    self.context = context
    self.session = session
    self.parts = parts
    self.form = form
  }

  /// - Throws: 404 for what can be no peer's name.
  func peer() throws -> RelayName {
    guard let name = RelayName(try context.segment("peer")) else { throw Self.noPeer }
    return name
  }

  static let noPeer = APIProblem(.notFound, "no-peer", "There is no such peer.")

  /// Does `body` under the name of the change token.
  func noting<Value>(
    _ action: String, on subject: String, _ body: () async throws -> Value
  ) async throws -> Value {
    guard let changer = session.changer else {
      throw APIProblem(.forbidden, "read-only", "Enter a change token first.")
    }
    let deed = AuditDeed(by: .token(changer.name), action: action, subject: subject)
    return try await parts.store.noting(
      deed, reason: { ($0 as? ConsoleFault)?.description ?? APIProblem($0).message }, body)
  }
}

/// The pages of the menu, in its order.
enum ConsoleMenu {
  static let entries: [(name: String, path: String)] =
    ConsoleLivePage.allCases.map { ($0.title, $0.path) } + [
      ("Push history", "/console/push"), ("Audit log", "/console/audit"),
    ]

  /// The page that a form leads back to: one of the console, whatever was asked for.
  static func back(to path: String?) -> String {
    guard let path, path.wholeMatch(of: /\/console(\/[A-Za-z0-9-][A-Za-z0-9.-]{0,99}){1,2}/) != nil else {
      return "/console"
    }
    return path
  }
}
