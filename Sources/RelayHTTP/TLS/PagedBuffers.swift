import Glibc
@_spi(CustomByteBufferAllocator) import NIOCore
import Synchronization

/// Memory for the buffers that NIOSSL keeps for each connection: 32 KiB to decrypt into and 16 KiB to encrypt into, of
/// which an idle connection uses some hundred bytes.
///
/// Taken from the heap, they are memory that others used before, and count whole. Here they are pages of their own,
/// and those that are never touched cost nothing. NIOSSL has no setting for their size: the one that it has for the
/// larger of what it keeps (`maximumPreservedOutboundBufferCapacity`) it ignores, in 2.37.6.
enum PagedBuffers {
  /// Runs `body`, which adds TLS to `channel`: it takes its buffers then. All others come from the heap as ever.
  static func during(_ channel: any Channel, _ body: () throws -> Void) throws {
    let options = channel.syncOptions
    try options?.setOption(.allocator, value: allocator)
    try body()
    try options?.setOption(.allocator, value: ByteBufferAllocator())
  }

  private static let allocator = ByteBufferAllocator(
    allocate: { take($0) }, reallocate: { takeMore($0, $1, $2) }, deallocate: { giveBack($0) },
    copy: { $0.copyMemory(from: $1, byteCount: $2) })

  fileprivate static let pagedBytesMin = 16 << 10
  /// A process may have 65,530 mappings, and needs some for other things. All further buffers are the heap's.
  fileprivate static let blocksMax = 40_000
  fileprivate static let blocks = Atomic(0)
  /// Before each block: the length of its pages, 0 for one of the heap. Keeps the alignment of `malloc`.
  fileprivate static let headBytes = 16
}

private func take(_ size: Int) -> UnsafeMutableRawPointer? {
  let whole = size + PagedBuffers.headBytes
  if size >= PagedBuffers.pagedBytesMin, let pages = takePages(whole) {
    pages.storeBytes(of: whole, as: Int.self)
    return pages + PagedBuffers.headBytes
  }
  guard let block = malloc(whole) else { return nil }
  block.storeBytes(of: 0, as: Int.self)
  return block + PagedBuffers.headBytes
}

private func takePages(_ size: Int) -> UnsafeMutableRawPointer? {
  guard PagedBuffers.blocks.load(ordering: .relaxed) < PagedBuffers.blocksMax else { return nil }
  let pages = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
  guard let pages, pages != MAP_FAILED else { return nil }
  PagedBuffers.blocks.wrappingAdd(1, ordering: .relaxed)
  // Huge pages would be touched as a whole. A kernel without them refuses, which is as good.
  madvise(pages, size, MADV_NOHUGEPAGE)
  return pages
}

private func takeMore(_ block: UnsafeMutableRawPointer?, _ oldSize: Int, _ size: Int) -> UnsafeMutableRawPointer? {
  guard let larger = take(size) else { return nil }
  if let block {
    larger.copyMemory(from: block, byteCount: min(oldSize, size))
    giveBack(block)
  }
  return larger
}

private func giveBack(_ block: UnsafeMutableRawPointer) {
  let start = block - PagedBuffers.headBytes
  let pagedBytes = start.load(as: Int.self)
  guard pagedBytes > 0 else { return free(start) }
  munmap(start, pagedBytes)
  PagedBuffers.blocks.wrappingSubtract(1, ordering: .relaxed)
}
