import Glibc
@_spi(CustomByteBufferAllocator) import NIOCore
import Synchronization

/// Memory for the buffers that NIOSSL keeps for each connection: 32 KiB to decrypt into and 16 KiB to encrypt into, of
/// which an idle connection uses some hundred bytes.
///
/// Taken from the heap, they are memory that others used before, and count whole. Here they are slots of pages of
/// their own (`PageSlots`), and pages that are never touched cost nothing. `TLSBuffers` gives the touched ones back
/// while a connection is quiet. NIOSSL has no setting for their size. It has one for the larger of what it keeps
/// (`maximumPreservedOutboundBufferCapacity`), and ignores it in 2.37.6.
enum PagedBuffers {
  /// The slots of the whole process. NIO keeps buffers of any connection, and may end them on any thread.
  static let slots = Mutex(PageSlots())

  /// Runs `body`, which adds TLS to `channel`: it takes its buffers then, and they are `buffers`'. All others come
  /// from the heap as ever.
  static func during(_ channel: any Channel, for buffers: TLSBuffers, _ body: () throws -> Void) throws {
    let options = channel.syncOptions
    try options?.setOption(.allocator, value: allocator)
    try buffers.taking(body)
    try options?.setOption(.allocator, value: ByteBufferAllocator())
  }

  /// Sizes that no slot has come from the heap, as do all once the system has no more addresses.
  static let allocator = ByteBufferAllocator(
    allocate: { take($0) }, reallocate: { takeMore($0, $1, $2) }, deallocate: { giveBack($0) },
    copy: { $0.copyMemory(from: $1, byteCount: $2) })
}

private func take(_ size: Int) -> UnsafeMutableRawPointer? {
  guard let slotBytes = PageSlots.slotBytes(for: size) else { return malloc(size) }
  let buffers = TLSBuffers.current
  let address = PagedBuffers.slots.withLock { $0.take(slotBytes, for: buffers?.owner ?? PageSlots.nobody) }
  guard let address else { return malloc(size) }
  buffers?.took(address)
  return UnsafeMutableRawPointer(bitPattern: address)
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
  let address = UInt(bitPattern: block)
  // Most of the heap's addresses need no look at the slots.
  let isSlot = PageSlots.mayBeSlot(address) && PagedBuffers.slots.withLock { $0.giveBack(address) }
  if !isSlot { free(block) }
}
