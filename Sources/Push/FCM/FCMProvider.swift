package import Logging
import NIOHTTP1
package import RelayCore
import RelayHTTP
import Synchronization

/// Google's service, HTTP v1 (push gateway reference, 5).
package final class FCMProvider: PushProvider {
  private let endpoint: String
  /// nil where the endpoint is no URL.
  private let url: PushURL?
  private let clock: WallClock
  private let credentials: Reloading<FCMCredentials, PushCredentialError>

  /// - Throws: when the files cannot be used. Later on the former content stays.
  package init(_ settings: FCMSettings, clock: WallClock, logger: Logger) throws(PushCredentialError) {
    endpoint = settings.endpoint
    url = PushURL(settings.endpoint)
    self.clock = clock
    let former = Mutex<FCMCredentials?>(nil)
    credentials = try Reloading(
      files: [settings.serviceAccountFile] + (settings.trust.map { [$0] } ?? []), logger: logger
    ) { () throws(PushCredentialError) in
      let loaded = try FCMCredentials.load(settings, former: former.withLock { $0 }, clock: clock)
      former.withLock { $0 = loaded }
      return loaded
    }
  }

  package var servers: [String] { [endpoint, credentials.current.tokenURL] }

  package func run() async throws { try await credentials.run() }

  package func send(_ message: PushMessage, deadline: ContinuousClock.Instant) async -> PushOutcome {
    guard case .fcm = message.target else { return .refused(PushReason(.message, "wrong-target")) }
    let credentials = credentials.current
    let token: SharedToken.Token
    do throws(SharedToken.Failure) {
      token = try await credentials.token.current(now: clock.now(), until: deadline)
    } catch {
      return error.outcome
    }
    let request = PushRequest(
      url: url?.appending("/v1/projects/\(credentials.projectID)/messages:send"),
      headers: ["authorization": token.authorization, "content-type": "application/json"],
      body: message.payload.bytes)
    do throws(PushFailure) {
      let answer = try await credentials.client.post(request, deadline: deadline)
      // It may have been withdrawn before its time.
      if answer.status == 401 { credentials.token.discard(token) }
      return FCMAnswer.outcome(answer, now: clock.now())
    } catch {
      return error.outcome
    }
  }
}
