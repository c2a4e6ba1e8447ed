@testable import VOPRF

extension [UInt8] {
  init(hex: String) {
    let digits = [UInt8](hex.utf8)
    self = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
      UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
    }
  }
}

extension SecretScalars {
  /// Numbers of 32 bytes each.
  convenience init(hex: [String]) {
    self.init(bytes: hex.map { [UInt8](hex: $0) })
  }

  /// - Parameter bytes: 32 each.
  convenience init(bytes: [[UInt8]]) {
    self.init(count: bytes.count)
    for (index, number) in bytes.enumerated() {
      write(index) { $0.update(from: number, count: Scalar.byteCount) }
    }
  }

  var bytes: [[UInt8]] { (0..<count).map { index in read(index) { Scalar(copying: $0).bytes } } }
}
