import Glibc
import NIOCore
import Synchronization

/// The buffers that TLS keeps for one connection. Their pages can be given back while the connection is quiet: 4 KiB
/// of each are touched as a rule, which is more than half of an idle connection's cost.
///
/// It is a handler only so that handlers behind TLS can find it. It leaves the pipeline when the connection's protocol
/// is agreed on, and belongs from then on to the one that found it. To be used on the connection's event loop.
final class TLSBuffers: ChannelOutboundHandler, RemovableChannelHandler {
  typealias OutboundIn = Never

  let owner: PageSlots.Owner
  /// Addresses of slots that were taken for this connection, 0 for none. It has two at a time, and may have others'
  /// by now among them.
  private(set) var slots = InlineArray<4, UInt>(repeating: 0)

  private static let lastOwner = Atomic(PageSlots.nobody)
  /// The thread's `TLSBuffers` while `taking` runs.
  private static let currentKey: pthread_key_t = {
    var key = pthread_key_t()
    pthread_key_create(&key, nil)
    return key
  }()

  init() { owner = Self.lastOwner.wrappingAdd(1, ordering: .relaxed).newValue }

  /// For whom the running thread takes slots; nil: for nobody.
  static var current: TLSBuffers? {
    pthread_getspecific(currentKey).map { Unmanaged<TLSBuffers>.fromOpaque($0).takeUnretainedValue() }
  }

  /// Runs `body`. Buffers that TLS takes meanwhile, on this thread, are this connection's.
  func taking(_ body: () throws -> Void) rethrows {
    let former = pthread_getspecific(Self.currentKey)
    pthread_setspecific(Self.currentKey, Unmanaged.passUnretained(self).toOpaque())
    defer { pthread_setspecific(Self.currentKey, former) }
    try withExtendedLifetime(self) { try body() }
  }

  /// Notes a slot that was taken for this connection.
  func took(_ address: UInt) {
    for index in slots.indices {
      let isGone = slots[index] == 0 || !PagedBuffers.slots.withLock { $0.isSlot(slots[index], of: owner) }
      if isGone {
        slots[index] = address
        return
      }
    }
    // More than TLS ever keeps: this one has its pages for as long as it lives.
  }

  /// Notes the slot that TLS decrypted into. TLS takes a larger one by itself when much comes at once.
  /// - Parameter bytes: as TLS handed them over. Nobody reads them any more when `dropPages` is called.
  func delivered(_ bytes: ByteBuffer) {
    let start = bytes.withUnsafeReadableBytes { UInt(bitPattern: $0.baseAddress) } &- UInt(bytes.readerIndex)
    guard PageSlots.mayBeSlot(start), !slots.indices.contains(where: { slots[$0] == start }) else { return }
    if PagedBuffers.slots.withLock({ $0.adopt(start, for: owner) }) { took(start) }
  }

  /// Gives the pages of all buffers back to the system. Only for when they hold nothing: no byte waits in TLS or in
  /// the channel, and nobody holds on to what was read.
  func dropPages() {
    PagedBuffers.slots.withLock { pages in
      for index in slots.indices where slots[index] != 0 && !pages.dropPages(slots[index], of: owner) {
        slots[index] = 0
      }
    }
  }
}
