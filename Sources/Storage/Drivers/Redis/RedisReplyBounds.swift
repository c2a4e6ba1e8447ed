import CHiredis

/// Bounds what an answer of Redis's may announce.
///
/// hiredis sets room aside for all elements of an array before the first has come: eight bytes each, for `*2147483647`
/// from whoever took Redis's place 16 GiB.
enum RedisReplyBounds {
  /// The bound of one array. Our requests have far shorter answers.
  static let elementsMax = 1_000_000

  /// - Parameter reader: says "out of memory" of an array that is longer, which ends the connection.
  static func apply(to reader: UnsafeMutablePointer<redisReader>) { reader.pointee.fn = functions }

  /// hiredis's own, but for one. Never changed, and never freed: readers of all threads use it.
  nonisolated(unsafe) private static let functions: UnsafeMutablePointer<redisReplyObjectFunctions>? = {
    guard let original else { return nil }
    let functions = UnsafeMutablePointer<redisReplyObjectFunctions>.allocate(capacity: 1)
    functions.initialize(to: original)
    functions.pointee.createArray = { task, count in
      guard count <= RedisReplyBounds.elementsMax else { return nil }
      return RedisReplyBounds.original?.createArray(task, count)
    }
    return functions
  }()

  private static let original: redisReplyObjectFunctions? = {
    guard let reader = redisReaderCreate() else { return nil }
    defer { redisReaderFree(reader) }
    return reader.pointee.fn?.pointee
  }()
}
