import NIOCore

@testable import Directory
@testable import RelayCore

/// What processes with parts of the directory are asked, and what they answer. The first byte says which of the two.
func fuzzParts(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  let buffer = ByteBuffer(bytes: body)
  if selector % 2 == 0 {
    guard let read = PartQuestions(buffer) else { return }
    demand(Array(buffer: read.bytes) == body, "questions come back")
    demand(read.questions.reduce(0) { $0 + $1.tokenCount } == read.tokens.count, "each token is of a question")
  } else {
    guard let read = PartAnswers(buffer, to: asked) else { return }
    demand(Array(buffer: read.bytes) == body, "answers come back")
    demand(read.codes.allSatisfy { $0.entry?.relay ?? 0 <= read.names.count }, "every relay has a name")
  }
}

/// Two look-ups of three tokens.
private let asked: PartQuestions = {
  var questions = PartQuestions(of: .whole)
  questions.questions = [
    .init(telling: .entries, tokenCount: 2),
    .init(telling: .changes(since: DirectoryPlace(generation: 1, revision: 2)), tokenCount: 1),
  ]
  questions.tokens = PackedTokens(count: 3) { memory in
    for index in 0..<3 { PackedTokens.write(ContactToken(high: UInt64(index + 1), low: 7), at: index, to: memory) }
  }
  return questions
}()
