import AsyncHTTPClient
import ChildProcesses
package import Foundation
import NIOCore
import NIOHTTP1

/// A headless Chromium of one test, driven by its WebDriver (https://www.w3.org/TR/webdriver2/). Neither can outlive
/// the tests: the browser ends with the pipe to its driver, which ends with this process.
package final class Browser: Sendable {
  /// A key as WebDriver names it (17.4.2).
  package enum Key: String, Sendable {
    case tab = "\u{E004}"
    case enter = "\u{E007}"
  }

  private let url: String
  private let session: String
  private let driver: ChildProcess
  private let folder: String

  /// Runs `body` with a browser whose window is 1100 by 1400 points.
  package static func with<Value>(
    isolation: isolated (any Actor)? = #isolation, _ body: (Browser) async throws -> Value
  ) async throws -> Value {
    let browser = try await Browser()
    do {
      let value = try await body(browser)
      await browser.close()
      return value
    } catch {
      await browser.close()
      throw error
    }
  }

  private init() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "relay-browser-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let port = try Loopback.freePorts(1)[0]
    let driver = try await ChildProcess.start(
      .init(
        command: ["/usr/bin/chromedriver", "--port=\(port)"],
        environment: ["HOME": folder, "TMPDIR": folder, "PATH": "/usr/bin:/bin"], folder: folder,
        standardOutput: folder + "/log", standardError: folder + "/log"))
    let url = "http://127.0.0.1:\(port)"
    do {
      try await eventually("chromedriver answers", within: .seconds(60)) {
        if let exit = driver.exit { throw TestFailure("chromedriver \(exit)") }
        return (try? await Self.ask(url, .GET, "/status", nil)) != nil
      }
      let options: [String: any Sendable] = [
        "args": [
          "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
          "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
          "--user-data-dir=\(folder)/profile", "--window-size=1100,1400",
        ]
      ]
      let wanted: [String: any Sendable] = [
        "capabilities": [
          "alwaysMatch": [
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": ["browser": "ALL"],
          ] as [String: any Sendable]
        ]
      ]
      let answer = try await Self.ask(url, .POST, "/session", wanted) as? [String: Any]
      guard let session = answer?["sessionId"] as? String else { throw TestFailure("no session: \(answer ?? [:])") }
      (self.url, self.session, self.driver, self.folder) = (url, session, driver, folder)
    } catch {
      let log = (try? String(contentsOfFile: folder + "/log", encoding: .utf8)) ?? ""
      await driver.stop()
      throw TestFailure("\(error) \(log.suffix(1000))")
    }
  }

  private func close() async {
    // Ends the browser; what is left of it ends with the driver.
    _ = try? await Self.ask(url, .DELETE, "/session/\(session)", nil)
    await driver.stop()
    // A leftover in the temporary folder hurts nobody.
    try? FileManager.default.removeItem(atPath: folder)
  }

  // MARK: What a person does

  package func open(_ page: String) async throws { try await command(.POST, "/url", ["url": page]) }

  package var address: String { get async throws { try await command(.GET, "/url", nil) as? String ?? "" } }

  /// The text of the page.
  package var text: String { get async throws { try await run("return document.body.innerText") as? String ?? "" } }

  /// Clicks the first element that a CSS selector finds.
  package func click(_ selector: String) async throws {
    try await command(.POST, "/element/\(try await element(selector))/click", [:])
  }

  /// Types into an element.
  package func type(_ text: String, into selector: String) async throws {
    try await command(.POST, "/element/\(try await element(selector))/value", ["text": text])
  }

  /// Presses a key, wherever the focus is.
  package func press(_ key: Key) async throws {
    let actions: [[String: any Sendable]] = ["keyDown", "keyUp"].map { ["type": $0, "value": key.rawValue] }
    try await command(
      .POST, "/actions",
      ["actions": [["type": "key", "id": "keyboard", "actions": actions] as [String: any Sendable]]])
  }

  /// Waits until the page says so.
  package func shows(_ words: String, within limit: Duration = .seconds(20)) async throws {
    do {
      try await eventually("the page shows \(words)", within: limit) { try await self.text.contains(words) }
    } catch {
      throw TestFailure("\(error): \((try? await text.prefix(2000)) ?? "")")
    }
  }

  // MARK: What a tester does

  /// The value of a script's `return`, as JSON has it.
  @discardableResult
  package func run(_ script: String) async throws -> Any? {
    try await command(.POST, "/execute/sync", ["script": script, "args": [String]()])
  }

  /// The same of a script that calls the function in its last argument.
  package func runToTheEnd(_ script: String) async throws -> Any? {
    try await command(.POST, "/execute/async", ["script": script, "args": [String]()])
  }

  /// The browser's complaints, such as violations of the page's policy.
  package func complaints() async throws -> [String] {
    let lines = try await command(.POST, "/se/log", ["type": "browser"]) as? [[String: Any]] ?? []
    return lines.compactMap { $0["message"] as? String }
  }

  /// A PNG of the window, or of one element.
  package func screenshot(of selector: String? = nil) async throws -> Data {
    let path = if let selector { "/element/\(try await element(selector))/screenshot" } else { "/screenshot" }
    guard let text = try await command(.GET, path, nil) as? String, let data = Data(base64Encoded: text) else {
      throw TestFailure("no screenshot")
    }
    return data
  }

  private func element(_ selector: String) async throws -> String {
    let found = try await command(.POST, "/element", ["using": "css selector", "value": selector]) as? [String: Any]
    guard let id = found?.values.first as? String else { throw TestFailure("no element \(selector)") }
    return id
  }

  @discardableResult
  private func command(
    _ method: HTTPMethod, _ path: String, _ body: [String: any Sendable]?
  ) async throws -> Any? { try await Self.ask(url, method, "/session/\(session)" + path, body) }

  /// - Returns: the value of the answer.
  private static func ask(
    _ url: String, _ method: HTTPMethod, _ path: String, _ body: [String: any Sendable]?
  ) async throws -> Any? {
    var request = HTTPClientRequest(url: url + path)
    request.method = method
    if let body {
      request.headers.add(name: "Content-Type", value: "application/json")
      request.body = .bytes(ByteBuffer(bytes: try JSONSerialization.data(withJSONObject: body)))
    }
    let response = try await TestHTTP.client.execute(request, timeout: .seconds(60))
    let bytes = try await response.body.collect(upTo: 32 << 20)
    let answer = try JSONSerialization.jsonObject(with: Data(bytes.readableBytesView)) as? [String: Any]
    guard response.status == .ok else {
      let fault = answer?["value"] as? [String: Any]
      throw TestFailure("\(path): \(fault?["error"] ?? response.status) \(fault?["message"] ?? "")")
    }
    let value = answer?["value"]
    return value is NSNull ? nil : value
  }
}
