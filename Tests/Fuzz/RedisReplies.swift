import CHiredis

@testable import RelayCore
@testable import Storage

/// Replies as Redis sends them, through hiredis's reader and what is ours behind it; and what processes tell each other
/// over it.
func fuzzRedis(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  switch selector % 4 {
  case 0, 1: for reply in replies(in: body) { use(reply) }
  case 2:
    guard let event = PresenceWord.event(body) else { return }
    if case .wakeUp(let devices) = event { demand(!devices.isEmpty, "a wake-up is for somebody") }
    if case .handedOver(let handed, let address) = event {
      guard
        case .handedOver(let again, let same)? = PresenceWord.event(
          Array(PresenceWord.handOver(handed, to: address).utf8))
      else { return demand(false, "a hand-over comes back") }
      demand(again == handed && same == address, "a hand-over comes back")
    }
  default:
    guard let signal = RedisSignal(body) else { return }
    demand(RedisSignal(Array(signal.text.utf8)) == signal, "a signal comes back")
  }
}

private func replies(in body: [UInt8]) -> [RedisReply] {
  guard let reader = redisReaderCreate() else { return [] }
  defer { redisReaderFree(reader) }
  RedisReplyBounds.apply(to: reader)
  let isFed = body.withUnsafeBytes {
    redisReaderFeed(reader, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
  }
  var found: [RedisReply] = []
  var reply: UnsafeMutableRawPointer?
  while isFed == REDIS_OK, redisReaderGetReply(reader, &reply) == REDIS_OK, let raw = reply, found.count < 64 {
    found.append(RedisReply(UnsafePointer(raw.assumingMemoryBound(to: redisReply.self))))
    freeReplyObject(raw)
    reply = nil
  }
  return found
}

private func use(_ reply: RedisReply) {
  if let places = reply.places(below: 3) {
    demand(places.allSatisfy { (0..<3).contains($0) }, "places have their bounds")
  }
  let now = ContinuousClock.now
  if let clock = ServerClock(reply, asked: now, answered: now) {
    _ = clock.micros(at: now + .seconds(86_400))
    _ = clock.corrected(by: clock)
  }
  if case .error(let code) = reply { demand(!code.contains(" "), "of an error its code is kept") }
  if case .bytes(let bytes) = reply { _ = (PresenceWord.event(bytes), RedisSignal(bytes)) }
}
