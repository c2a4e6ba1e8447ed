import Foundation
import NIOCore
import RelayClient
import RelayCore

/// One account's look-ups of its whole address book.
struct LookUpWorkload: Workload {
  private let request: ByteBuffer
  private let expected: [Contact]
  /// The first answer, once it was found right.
  private var right: ByteBuffer?

  /// - Parameter peer: the relay of all that are known.
  init(of book: AddressBook, by account: BenchmarkAccount, peer: RelayName) {
    request =
      RequestTemplate(
        "PUT", path: "/v1/directory/tokens", authorization: account.authorization,
        body: String(decoding: ContactCodec.encode(tokens: book.tokens), as: UTF8.self)
      ).request
    expected = book.known.map { Contact(token: $0.base64, relay: peer.text) }
  }

  mutating func nextRequest() -> ByteBuffer { request }

  func rowsChanged(by answer: Answer) -> Int { 0 }

  /// The first answer is read as a client reads it; the others have to be the same, byte for byte.
  mutating func fault(in answer: Answer) -> String? {
    if let right { return answer.body == right ? nil : "an answer that differs from the first" }
    do {
      let found = try JSONDecoder().decode([String: [Contact]].self, from: Data(answer.body.readableBytesView))
      guard found == ["contacts": expected] else { return "other contacts than those that are known" }
    } catch {
      return "an answer that cannot be read"
    }
    right = answer.body
    return nil
  }
}
