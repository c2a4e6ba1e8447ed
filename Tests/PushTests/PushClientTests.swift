import NIOHTTP1
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Push

/// Connections that are there, and carry nothing any more.
@Suite(.tags(.unit)) struct PushClientTests {
  private func client(_ site: PushSite, patience: Duration) throws -> PushClient {
    var settings = PushClient.Settings()
    settings.speaksHTTP2 = true
    settings.trust = try CredentialFile.authorities(site.files.trust)
    settings.patience = patience
    return PushClient(settings)
  }

  private func post(
    _ client: PushClient, _ service: FakeService, until deadline: ContinuousClock.Instant
  ) async -> Result<Int, PushFailure> {
    do throws(PushFailure) {
      let request = PushRequest(url: PushURL("\(service.url)/x"), headers: [:], body: [])
      return .success(try await client.post(request, deadline: deadline).status)
    } catch {
      return .failure(error)
    }
  }

  @Test func `a connection that is silent three times is replaced`() async throws {
    let site = try PushSite()
    let service = try await FakeService(site.files, speaksHTTP2: true)
    let client = try client(site, patience: .zero)
    #expect(await post(client, service, until: .patient) == .success(200))
    for isSilent in [true, true, false, true, true, true] {
      service.answerAlways(isSilent ? .silence : .answer(200))
      let deadline: ContinuousClock.Instant = isSilent ? .now + .seconds(1) : .patient
      #expect(await post(client, service, until: deadline) == (isSilent ? .failure(.timedOut) : .success(200)))
    }
    #expect(service.acceptedCount == 1)
    service.answerAlways(.answer(200))
    #expect(await post(client, service, until: .patient) == .success(200))
    #expect(service.acceptedCount == 2)
    try await service.close()
  }

  @Test func `a push with little time teaches nothing about the provider`() async throws {
    let site = try PushSite()
    let service = try await FakeService(site.files, speaksHTTP2: true)
    let client = try client(site, patience: .seconds(5))
    #expect(await post(client, service, until: .patient) == .success(200))
    service.answerAlways(.silence)
    for _ in 0..<4 { #expect(await post(client, service, until: .now + .seconds(1)) == .failure(.timedOut)) }
    service.answerAlways(.answer(200))
    #expect(await post(client, service, until: .patient) == .success(200))
    #expect(service.acceptedCount == 1)
    try await service.close()
  }
}
