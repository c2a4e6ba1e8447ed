import RelayCore
import TestTags
import Testing

/// The Edwards forms of public keys. Expected values were computed with Python's integers.
@Suite(.tags(.unit)) struct Curve25519PointTests {
  @Test(arguments: [
    // The base point: u = 9, y = 4/5 (RFC 7748, 4.1).
    (
      "0900000000000000000000000000000000000000000000000000000000000000",
      "5866666666666666666666666666666666666666666666666666666666666666"
    ),
    // 0, 1, 2 and p - 2.
    (
      "0000000000000000000000000000000000000000000000000000000000000000",
      "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"
    ),
    (
      "0100000000000000000000000000000000000000000000000000000000000000",
      "0000000000000000000000000000000000000000000000000000000000000000"
    ),
    (
      "0200000000000000000000000000000000000000000000000000000000000000",
      "4955555555555555555555555555555555555555555555555555555555555555"
    ),
    (
      "ebffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "0300000000000000000000000000000000000000000000000000000000000000"
    ),
    // p + 1 and 2^255 - 1 are 1 and 18.
    (
      "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "0000000000000000000000000000000000000000000000000000000000000000"
    ),
    (
      "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
      "c66b28afa1bc86f21aca6b28afa1bc86f21aca6b28afa1bc86f21aca6b28af21"
    ),
    // The last bit counts for nothing.
    (
      "457c769f39d8644199c0e5bdbcfbc85b37ce91cbde1fc1b0ea6b44f130436dd7",
      "b422121047c3ba23d573214b69498da919ffa4f60f52f75a2a5612461a62464b"
    ),
    (
      "74d37ff136eac13f553223a63841460d3b6aa1e68d682728f610fb1c7fd92d5f",
      "c16e85f72fe132021cf1553aae531a4522e28618f98225fba99633418fdd3579"
    ),
  ])
  func `a point's Edwards form is (u - 1) / (u + 1)`(u: String, y: String) throws {
    #expect(Curve25519Point.edwards(u: [UInt8](hex: u), isNegative: false) == [UInt8](hex: y))
    var negative = [UInt8](hex: y)
    negative[31] |= 0x80
    #expect(Curve25519Point.edwards(u: [UInt8](hex: u), isNegative: true) == negative)
  }

  @Test func `u = -1 has none, and neither has another count of bytes`() {
    let minusOne = "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"
    #expect(Curve25519Point.edwards(u: [UInt8](hex: minusOne), isNegative: false) == nil)
    for count in [0, 31, 33] {
      #expect(Curve25519Point.edwards(u: [UInt8](repeating: 1, count: count), isNegative: false) == nil)
    }
  }
}
