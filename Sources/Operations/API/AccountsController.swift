import Foundation
import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// `/api/v1/accounts`, `/api/v1/bans` and `/api/v1/handles`. ACCOUNT in a path is a handle, or a number, which proxies
/// and shells may keep: `POST /api/v1/handles` tells the handle of a number.
struct AccountsController: Sendable {
  let parts: @Sendable () throws(APIProblem) -> OperatorAPI.Parts

  // MARK: Looking

  @Sendable func list(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let limit = try request.whole("limit", in: 1...10_000, otherwise: 100)
    var prefix: NumberPrefix?
    if let text = request.uri.queryParameters.get("prefix") {
      prefix = NumberPrefix(text)
      guard prefix != nil else {
        throw APIProblem(.badRequest, "malformed", "`prefix` is digits behind a plus sign, which is %2B in a URL.")
      }
    }
    var last: AccountNumber?
    if let after = request.uri.queryParameters.get("after") { last = try await number(after, parts) }
    return try .api(
      try await AccountReports(store: parts.store).list(after: last, prefix: prefix, limit: Int(limit)))
  }

  @Sendable func count(_ request: Request, _ context: OperatorContext) async throws -> Response {
    try .api(try await AccountReports(store: try parts().store).counts())
  }

  @Sendable func show(_ request: Request, _ context: OperatorContext) async throws -> Response {
    try .api(try await details(context))
  }

  @Sendable func devices(_ request: Request, _ context: OperatorContext) async throws -> Response {
    try .api(try await details(context).devices)
  }

  private func details(_ context: OperatorContext) async throws -> AccountDetails {
    let parts = try parts()
    let number = try await number(in: context, parts)
    guard let details = try await AccountReports(store: parts.store).details(of: number, at: parts.clock.now()) else {
      throw APIProblem.noAccount
    }
    return details
  }

  @Sendable func handle(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let body = try await request.jsonBody(max: Self.bodyBytesMax)
    guard let asked = try? JSONDecoder().decode(HandleQuestion.self, from: Data(body.readableBytesView)),
      let number = AccountNumber(e164: asked.number)
    else { throw APIProblem(.badRequest, "malformed", #"Send {"number":"+14155550100"}."#) }
    return try .api(HandleAnswer(handle: try await parts.store.handle(of: number).text))
  }

  private struct HandleQuestion: Decodable {
    let number: String
  }
  private struct HandleAnswer: Encodable {
    let handle: String
  }

  /// Answers for this process alone.
  @Sendable func senders(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let limit = try request.whole("limit", in: 1...100, otherwise: 10)
    let ranked = parts.senders.ranking(of: Int(limit))
    var rows: [RankedSendersRow.Sender] = []
    for sender in ranked.senders {
      rows.append(.init(handle: try await parts.store.handle(of: sender.account).text, messages: sender.messages))
    }
    return try .api(RankedSendersRow(seconds: ranked.seconds, senders: rows))
  }

  // MARK: Limits

  @Sendable func limits(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let number = try await number(in: context, parts)
    return try .api(
      await AccountLimits(limiter: parts.limiter).rows(of: number, devices: try await devices(of: number, parts)))
  }

  @Sendable func resetLimits(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let number = try await number(in: context, parts)
    let (limits, devices) = (AccountLimits(limiter: parts.limiter), try await devices(of: number, parts))
    return try await noting("accounts limits --reset", number, context, parts) {
      await limits.reset(of: number, devices: devices)
      return try .api(await limits.rows(of: number, devices: devices))
    }
  }

  /// None where there is no account: the limits of a number without one are those of registering it.
  private func devices(of number: AccountNumber, _ parts: OperatorAPI.Parts) async throws -> [DeviceID] {
    try await parts.store.account(number)?.devices.map(\.id) ?? []
  }

  // MARK: Changing

  @Sendable func export(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let number = try await number(in: context, parts)
    return try await noting("accounts export", number, context, parts) {
      guard let export = try await AccountReports(store: parts.store).export(of: number, at: parts.clock.now()) else {
        throw APIProblem.noAccount
      }
      return try .api(export)
    }
  }

  @Sendable func delete(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let number = try await number(in: context, parts)
    return try await noting("accounts delete", number, context, parts) {
      guard let rows = try await remove(number, isBanned: false, parts) else { throw APIProblem.noAccount }
      guard request.uri.queryParameters.get("receipt") == "true" else { return try .api(rows) }
      return try .api(
        RemovalReceipt(number, try await parts.store.handle(of: number), rows, at: parts.clock.now()))
    }
  }

  @Sendable func ban(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let isBanned = try await parts.store.isBanned(try await number(in: context, parts))
    return try .api(BanRow(banned: isBanned, deleted: nil))
  }

  @Sendable func addBan(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let number = try await number(in: context, parts)
    return try await noting("accounts ban", number, context, parts) {
      try .api(BanRow(banned: true, deleted: try await remove(number, isBanned: true, parts)))
    }
  }

  @Sendable func endBan(_ request: Request, _ context: OperatorContext) async throws -> Response {
    let parts = try parts()
    let number = try await number(in: context, parts)
    return try await noting("accounts unban", number, context, parts) {
      guard try await parts.store.unban(number) else {
        throw APIProblem(.notFound, "not-banned", "The number is not banned.")
      }
      return try .api(BanRow(banned: false, deleted: nil))
    }
  }

  private func remove(
    _ number: AccountNumber, isBanned: Bool, _ parts: OperatorAPI.Parts
  ) async throws -> RemovalRow? {
    let removal: AccountRemoval?
    do throws(Problem) {
      removal = try await parts.remover.remove(number, of: nil, isBanned: isBanned)
    } catch {
      // A commit whose answer was lost may have deleted it all the same.
      await parts.signals.publish(.accountChanged(number))
      throw error
    }
    await parts.signals.publish(.accountChanged(number))
    return removal.map(RemovalRow.init)
  }

  private func noting(
    _ action: String, _ number: AccountNumber, _ context: OperatorContext, _ parts: OperatorAPI.Parts,
    _ body: () async throws -> Response
  ) async throws -> Response {
    guard let actor = context.actor else { throw APIProblem(.unauthorized, "unauthorized", "Nobody asks.") }
    let deed = AuditDeed(by: actor, action: action, subject: try await parts.store.handle(of: number).text)
    return try await parts.store.noting(deed, reason: { APIProblem($0).message }, body)
  }

  // MARK: Which account

  private func number(in context: OperatorContext, _ parts: OperatorAPI.Parts) async throws -> AccountNumber {
    try await number(try context.segment("account"), parts)
  }

  private func number(_ text: String, _ parts: OperatorAPI.Parts) async throws -> AccountNumber {
    guard let reference = AccountReference(text) else {
      throw APIProblem(
        .badRequest, "malformed", "An account is named by its handle, or by its number with the plus sign.")
    }
    guard let number = try await reference.number(in: parts.store) else {
      throw APIProblem(.notFound, "unknown-handle", "The handle is not one of this relay.")
    }
    return number
  }

  private static let bodyBytesMax = 1_024
}
