import Glibc

/// Slots of `sizes` in the address space, each of whole pages. They lie in chunks, which are mapped once and stay:
/// a million slots need a few thousand mappings of the kernel, of which a process may have 65,530.
///
/// The pages of a slot cost memory from when they are first touched until they are given back to the system. A slot
/// that is given back is taken again before others, with its pages (`warmMax` of each size); the pages of further ones
/// go to the system. Addresses are numbers here, so that they may cross threads.
struct PageSlots {
  /// A number that no two owners of a process share.
  typealias Owner = UInt64
  static let nobody: Owner = 0

  private struct Chunk {
    let slotBytes: Int
    /// By slot. `nobody` for a slot that is free, or was taken for no connection.
    var owners: [Owner]
  }

  private struct Free {
    /// With the pages that were touched.
    var warm: [UInt] = []
    var cold: [UInt] = []
  }

  /// Ascending, powers of two as NIO's buffers are. TLS begins with the first two. It encrypts what is flushed at once
  /// into one buffer, and keeps the largest that it ever needed.
  static let sizes = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10]
  /// A power of two, to which each chunk is aligned.
  private static let chunkBytes: UInt = 4 << 20

  /// By address, in units of `chunkBytes`.
  private var chunks: [UInt: Chunk] = [:]
  private var free: [Int: Free] = [:]

  /// - Returns: the size of the slots for blocks of `size` bytes; nil for a size that has none, smaller or larger.
  static func slotBytes(for size: Int) -> Int? {
    guard size > sizes[0] / 2 else { return nil }
    return sizes.first { size <= $0 }
  }

  /// Free slots of a size that keep their pages, 1 MiB of each. A busy connection whose reader holds on to what it read
  /// takes a new slot with each read.
  static func warmMax(_ slotBytes: Int) -> Int { (1 << 20) / slotBytes }

  /// False for an address at which no slot can begin.
  static func mayBeSlot(_ address: UInt) -> Bool { address.isMultiple(of: UInt(sizes[0])) }

  /// - Parameter slotBytes: one of `sizes`.
  /// - Returns: the slot's address; nil when the system has no more addresses. Its content is anything.
  mutating func take(_ slotBytes: Int, for owner: Owner) -> UInt? {
    guard let address = takeFree(slotBytes) else { return nil }
    chunks[Self.chunk(of: address)]?.owners[Self.slot(at: address, slotBytes)] = owner
    return address
  }

  /// - Returns: false for an address that is no slot's.
  mutating func giveBack(_ address: UInt) -> Bool {
    let chunk = Self.chunk(of: address)
    guard let slotBytes = chunks[chunk]?.slotBytes else { return false }
    chunks[chunk]?.owners[Self.slot(at: address, slotBytes)] = Self.nobody
    if free[slotBytes, default: Free()].warm.count < Self.warmMax(slotBytes) {
      free[slotBytes, default: Free()].warm.append(address)
    } else {
      Self.dropPages(address, slotBytes)
      free[slotBytes, default: Free()].cold.append(address)
    }
    return true
  }

  /// Makes a slot that is in use, and has no owner, `owner`'s.
  /// - Returns: false for all other addresses.
  mutating func adopt(_ address: UInt, for owner: Owner) -> Bool {
    let chunk = Self.chunk(of: address)
    guard let slotBytes = chunks[chunk]?.slotBytes, address.isMultiple(of: UInt(slotBytes)) else { return false }
    let slot = Self.slot(at: address, slotBytes)
    guard chunks[chunk]?.owners[slot] == Self.nobody else { return false }
    chunks[chunk]?.owners[slot] = owner
    return true
  }

  func isSlot(_ address: UInt, of owner: Owner) -> Bool {
    guard owner != Self.nobody, let chunk = chunks[Self.chunk(of: address)] else { return false }
    return chunk.owners[Self.slot(at: address, chunk.slotBytes)] == owner
  }

  /// Gives the touched pages of a slot to the system. They are zeros from then on, and cost nothing until they are
  /// touched again.
  /// - Returns: false when the slot is another's by now.
  func dropPages(_ address: UInt, of owner: Owner) -> Bool {
    guard isSlot(address, of: owner), let chunk = chunks[Self.chunk(of: address)] else { return false }
    Self.dropPages(address, chunk.slotBytes)
    return true
  }

  private static func chunk(of address: UInt) -> UInt { address / chunkBytes }
  private static func slot(at address: UInt, _ slotBytes: Int) -> Int { Int(address % chunkBytes) / slotBytes }

  private mutating func takeFree(_ slotBytes: Int) -> UInt? {
    if let address = free[slotBytes, default: Free()].warm.popLast() { return address }
    if let address = free[slotBytes, default: Free()].cold.popLast() { return address }
    free[slotBytes, default: Free()].cold = addChunk(slotBytes)
    return free[slotBytes, default: Free()].cold.popLast()
  }

  private static func dropPages(_ address: UInt, _ length: Int) {
    // It fails for addresses that are not mapped, and chunks stay mapped.
    madvise(UnsafeMutableRawPointer(bitPattern: address), length, MADV_DONTNEED)
  }

  /// - Returns: the slots of a new chunk, the first one last; empty when the system refuses.
  private mutating func addChunk(_ slotBytes: Int) -> [UInt] {
    let length = Int(Self.chunkBytes)
    // Twice as much as is needed: a whole chunk is aligned within it. The rest goes back.
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
    guard let pages = mmap(nil, 2 * length, PROT_READ | PROT_WRITE, flags, -1, 0), pages != MAP_FAILED else {
      return []
    }
    let start = UInt(bitPattern: pages)
    let before = (Self.chunkBytes - start % Self.chunkBytes) % Self.chunkBytes
    if before > 0 { munmap(pages, Int(before)) }
    let base = start + before
    munmap(UnsafeMutableRawPointer(bitPattern: base + Self.chunkBytes), length - Int(before))
    // Huge pages would be touched as a whole. A kernel without them refuses, which is as good.
    madvise(UnsafeMutableRawPointer(bitPattern: base), length, MADV_NOHUGEPAGE)
    let count = length / slotBytes
    chunks[Self.chunk(of: base)] = Chunk(slotBytes: slotBytes, owners: Array(repeating: Self.nobody, count: count))
    return (0..<count).reversed().map { base + UInt($0 * slotBytes) }
  }
}
