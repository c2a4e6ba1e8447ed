import Foundation
import Glibc
import Synchronization

/// Asks the system for the addresses of a host. Tests hand in their own answers.
package struct HostResolver: Sendable {
  /// - Returns: the addresses as texts, the best first; empty when there are none or they did not come in time; nil
  ///   when it was not asked for: too many others are.
  package let addresses: @Sendable (_ host: String, _ limit: Duration) async -> [String]?

  package init(_ addresses: @escaping @Sendable (_ host: String, _ limit: Duration) async -> [String]?) {
    self.addresses = addresses
  }

  /// The system's, on threads of their own: it blocks, and a slow name server must hold up nobody else.
  package static func system() -> HostResolver { threads(ResolverThreads.lookUp) }

  /// - Parameter lookUp: may block.
  package static func threads(_ lookUp: @escaping @Sendable (_ host: String) -> [String]) -> HostResolver {
    let threads = ResolverThreads(lookUp)
    return HostResolver { host, limit in await threads.addresses(of: host, within: limit) }
  }
}

/// One look-up of a host at a time, for all who ask meanwhile.
private final class ResolverThreads: Sendable {
  private typealias Answer = Waiter<[String]>
  private struct LookUp {
    /// The callers that wait, and those that have given up. Bounded by the requests that are open.
    var answers: [Answer]
    var hasBegun = false
  }

  private static let threadsMax = 4
  /// Hosts asked for and not answered; more are not asked.
  private static let pendingMax = 64

  private let queue = OperationQueue()
  private let pending = Mutex<[String: LookUp]>([:])
  private let lookUp: @Sendable (String) -> [String]

  init(_ lookUp: @escaping @Sendable (String) -> [String]) {
    self.lookUp = lookUp
    queue.maxConcurrentOperationCount = Self.threadsMax
  }

  func addresses(of host: String, within limit: Duration) async -> [String]? {
    let answer = Answer()
    guard ask(host, answer) else { return nil }
    if let addresses = await answer.value(until: .now + limit) { return addresses }
    return pending.withLock { $0[host]?.hasBegun } == false ? nil : []
  }

  /// - Returns: false when there is no room for another look-up.
  private func ask(_ host: String, _ answer: Answer) -> Bool {
    let (isIn, isFirst) = pending.withLock { pending in
      guard pending[host] == nil else {
        pending[host]?.answers.append(answer)
        return (true, false)
      }
      guard pending.count < Self.pendingMax else { return (false, false) }
      pending[host] = LookUp(answers: [answer])
      return (true, true)
    }
    guard isFirst else { return isIn }
    // A waiting caller may give up before the thread is done.
    queue.addOperation { [self] in
      pending.withLock { $0[host]?.hasBegun = true }
      let addresses = lookUp(host)
      pending.withLock { $0.removeValue(forKey: host)?.answers ?? [] }.end(with: addresses)
    }
    return true
  }

  static func lookUp(_ host: String) -> [String] {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_ADDRCONFIG
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, nil, &hints, &list) == 0 else { return [] }
    defer { freeaddrinfo(list) }
    var texts: [String] = []
    var next = list
    while let info = next?.pointee {
      next = info.ai_next
      var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
      guard
        getnameinfo(info.ai_addr, info.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
      else { continue }
      let address = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      if !texts.contains(address) { texts.append(address) }
    }
    return texts
  }
}
