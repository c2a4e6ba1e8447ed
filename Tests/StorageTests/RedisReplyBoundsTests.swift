import CHiredis
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.unit)) struct RedisReplyBoundsTests {
  /// - Returns: the elements of the array that `text` is; nil where it is refused.
  private func elements(_ text: String) throws -> Int? {
    let reader = try #require(redisReaderCreate())
    defer { redisReaderFree(reader) }
    RedisReplyBounds.apply(to: reader)
    let bytes = Array(text.utf8).map { CChar(bitPattern: $0) }
    #expect(redisReaderFeed(reader, bytes, bytes.count) == REDIS_OK)
    var reply: UnsafeMutableRawPointer?
    guard redisReaderGetReply(reader, &reply) == REDIS_OK else { return nil }
    let raw = try #require(reply)
    defer { freeReplyObject(raw) }
    return Int(raw.assumingMemoryBound(to: redisReply.self).pointee.elements)
  }

  @Test func `a reply that announces too many elements is refused before they come`() throws {
    #expect(try elements("*3\r\n:1\r\n+OK\r\n*1\r\n$2\r\nab\r\n") == 3)
    #expect(try elements("*\(RedisReplyBounds.elementsMax + 1)\r\n") == nil)
    #expect(try elements("*2147483647\r\n") == nil)
    #expect(try elements("*2\r\n:1\r\n*200000000\r\n") == nil, "within another")
  }
}
