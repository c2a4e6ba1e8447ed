import NIOCore
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

/// The bytes between processes: what is not written is not read.
@Suite(.tags(.unit)) struct PartWireTests {
  @Test func `bytes that are cut, longer or of another version are no questions`() throws {
    let sample = try PartSample(parts: 2, seed: 1)
    let batch = PartBatch([WantedContacts(sample.tokens), WantedContacts([], telling: .changes(since: nil))], among: 2)
    let bytes = batch.questions[0].bytes
    #expect(PartQuestions(bytes) == batch.questions[0])
    let all = Array(buffer: bytes)
    for count in 0..<min(all.count, 200) { #expect(PartQuestions(ByteBuffer(bytes: all.prefix(count))) == nil) }
    #expect(PartQuestions(ByteBuffer(bytes: all + [0])) == nil)
    // The version, a part that there is not, and the rest of the head.
    for (index, byte) in [(0, 2), (1, 0), (1, 3), (2, 0), (2, 65), (3, 1)] as [(Int, UInt8)] {
      var other = all
      other[index] = byte
      #expect(PartQuestions(ByteBuffer(bytes: other)) == nil, "\(index)")
    }
  }

  @Test func `more questions or tokens than a request may have are refused by their count`() {
    var bytes: [UInt8] = [1, 1, 1, 0]
    bytes += [0, 0, 1, 1]
    bytes += [UInt8](repeating: 0, count: 257 * PartQuestions.questionBytes)
    #expect(PartQuestions(ByteBuffer(bytes: bytes)) == nil)
    let many: [UInt8] = [1, 1, 1, 0, 0, 0, 0, 1] + [UInt8](repeating: 0, count: 17) + [0xFF, 0xFF, 0xFF, 0xFF]
    #expect(PartQuestions(ByteBuffer(bytes: many)) == nil)
  }

  @Test func `an answer that does not fit its questions is none`() throws {
    let sample = try PartSample(parts: 2, seed: 5)
    let batch = PartBatch([WantedContacts(sample.tokens, telling: .changes(since: PartSample.place(5)))], among: 2)
    let (questions, others) = (batch.questions[0], batch.questions[1])
    let answers = try PartLookUp(sample.parts[0]).answers(to: questions)
    let all = Array(buffer: answers.bytes)
    #expect(PartAnswers(answers.bytes, to: questions) == answers)
    #expect(PartAnswers(answers.bytes, to: others) == nil)
    #expect(PartAnswers(ByteBuffer(bytes: all + [0]), to: questions) == nil)
    for count in stride(from: 0, to: all.count, by: 7) {
      #expect(PartAnswers(ByteBuffer(bytes: all.prefix(count)), to: questions) == nil)
    }
    // More contacts than there are numbers.
    var many = all
    many[20] = 0x7F
    #expect(PartAnswers(ByteBuffer(bytes: many), to: questions) == nil)
    // A relay without a name, and bits that no entry has.
    for last in [0x8FFF, 0x0001] as [UInt16] {
      let wrong = all.dropLast(2) + [UInt8(last >> 8), UInt8(last & 0xFF)]
      #expect(PartAnswers(ByteBuffer(bytes: wrong), to: questions) == nil)
    }
  }

  @Test func `no bytes stop the process`() {
    let questions = PartQuestions(of: .whole)
    for seed in 1...2000 as ClosedRange<UInt64> {
      var random = SeededGenerator(seed: seed)
      var bytes = Array(buffer: questions.bytes) + (0..<60).map { _ in UInt8.random(in: .min ... .max, using: &random) }
      for _ in 0..<4 {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...3, using: &random)
      }
      if let read = PartQuestions(ByteBuffer(bytes: bytes)) { #expect(PartQuestions(read.bytes) == read) }
      if let read = PartAnswers(ByteBuffer(bytes: bytes), to: questions) {
        #expect(PartAnswers(read.bytes, to: questions) == read)
      }
    }
  }
}
