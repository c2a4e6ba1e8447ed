import NIOCore
import NIOHTTP1
import RelayWork

/// A request under way, and the one who waits for its answer.
final class PushCall: @unchecked Sendable {  // All mutable state belongs to the event loop.
  let url: PushURL
  let headers: HTTPHeaders
  let body: ByteBuffer
  let deadline: NIODeadline
  /// Told once.
  let answer = Waiter<Result<PushAnswer, PushFailure>>()

  private(set) var isOver = false
  private var status: Int?
  private var answerHeaders = HTTPHeaders()
  private var answerBody = ByteBuffer()

  init(url: PushURL, headers: HTTPHeaders, body: ByteBuffer, deadline: NIODeadline) {
    self.url = url
    self.headers = headers
    self.body = body
    self.deadline = deadline
  }

  /// Whether the head of the answer has come.
  var isAnswered: Bool { status != nil }

  func began(_ status: Int, _ headers: HTTPHeaders) {
    self.status = status
    answerHeaders = headers
  }

  /// - Returns: false when the answer is too large: no more of it is wanted.
  func received(_ part: inout ByteBuffer) -> Bool {
    guard part.readableBytes <= PushClient.answerBytesMax - answerBody.readableBytes else { return false }
    // Most come in one part, which is not copied.
    if answerBody.readableBytes == 0 { answerBody = part } else { answerBody.writeBuffer(&part) }
    return true
  }

  /// The answer has come whole.
  func finish() {
    guard let status else { return end(.lost) }
    end(.success(PushAnswer(status: status, headers: answerHeaders, body: answerBody)))
  }

  /// No more of the answer comes. A status that has come counts nevertheless.
  func end(_ failure: PushFailure) {
    guard let status else { return end(.failure(failure)) }
    end(.success(PushAnswer(status: status, headers: answerHeaders, body: nil)))
  }

  private func end(_ result: Result<PushAnswer, PushFailure>) {
    guard !isOver else { return }
    isOver = true
    answer.end(with: result)
  }
}
