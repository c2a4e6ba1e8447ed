extension Array {
  /// The elements in runs of `size`, in order; the last one may be shorter. None where there is nothing.
  func chunks(of size: Int) -> [ArraySlice<Element>] {
    stride(from: 0, to: count, by: size).map { self[$0..<Swift.min($0 + size, count)] }
  }
}
