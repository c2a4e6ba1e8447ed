import Hummingbird
import RelayCore
import RelayHTTP

/// Delivery receipts that clients send themselves (reference 1.9).
struct ReceiptsController: Sendable {
  let store: any MessageStore
  let intake: any Intake
  let courier: any Courier
  let homes: any HomeFinder
  let limiter: any RateLimiter
  let gate: CorrespondenceGate

  func addRoutes(to router: some RouterMethods<DeviceContext>) {
    router.resource("/v1/receipt/:number/:timestamp", [(.put, send)])
  }

  /// Only for what the device has received: nobody learns by a receipt whether a number is registered, and nobody
  /// forges one (reference Part 6, 12). A body is ignored.
  @Sendable private func send(_ request: Request, _ context: DeviceContext) async throws(Problem) -> Response {
    let destination = try context.number("number")
    let timestamp = try context.timestamp()
    let relay = try request.relay()
    let caller = context.caller.address
    try await limiter.charge(.receipts, LimitKey(caller.account))
    // A sender is not told that its own copies have arrived.
    guard destination != caller.account else { return .done }
    let standing = try await standing(of: timestamp, from: destination, in: caller)
    // In the words of every other refusal here.
    guard standing != .unknown else { throw Problem(.notFound, hint: .number) }
    try await gate.reply(to: destination, by: caller.account) { () async throws(Problem) in
      if let relay = try await homes.relay(for: destination, named: relay) {
        try await courier.sendReceipt(for: timestamp, from: caller, to: destination, at: relay)
      } else if standing == .queued {
        // The removal of an acknowledged one has told its sender.
        try await intake.acceptReceipt(for: timestamp, to: destination, from: .client(caller))
      }
    }
    return .done
  }

  private func standing(of timestamp: Timestamp, from source: AccountNumber, in mailbox: DeviceAddress)
    async throws(Problem) -> MessageStanding
  {
    do throws(StoreError) {
      return try await store.standing(of: timestamp, from: source, in: mailbox)
    } catch {
      throw Problem(error)
    }
  }
}

extension DeviceContext {
  /// The segment `timestamp`. - Throws: `.notFound` for what is no integer.
  func timestamp() throws(Problem) -> Timestamp {
    guard let millis = Int64(try segment("timestamp")) else { throw Problem(.notFound) }
    return Timestamp(millis: millis)
  }
}
