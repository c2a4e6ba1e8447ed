import TestTags
import Testing

@testable import RelayClient

/// URLs that relays name, and what a value of the client library shows when it is printed.
@Suite(.tags(.unit)) struct RequestURLTests {
  @Test(arguments: [
    ("http://a", 80), ("https://a/b?c=d", 443), ("http://a:1/", 1), ("https://[::1]:65535/x", 65_535),
  ])
  func `a URL with a host, and a port that there is, can be asked`(text: String, port: Int) throws {
    #expect(try #require(RequestURL(text)).port == port)
  }

  @Test(arguments: [
    "", "a", "http://", "http:///x", "http://a:0/", "http://a:65536/", "http://127.0.0.1:70000/", "http://a:-1/",
    "ftp://a/", "file:///x", "http+unix://%2Ftmp%2Fx/y", "https+unix://%2Fx/y", "unix:///x",
  ])
  func `no request goes to any other`(text: String) {
    #expect(RequestURL(text) == nil)
  }

  @Test func `a device's attributes show no key`() {
    let attributes = DeviceAttributes.random()
    var dumped = ""
    dump(attributes, to: &dumped)
    for text in ["\(attributes)", String(reflecting: attributes), dumped] {
      #expect(!text.contains(attributes.signalingKey))
    }
  }

  @Test func `a time without end is a long one`() {
    #expect(Duration.seconds(Int64.max).nanoseconds > 0 && Duration.seconds(Int64.min).nanoseconds < 0)
    #expect(Duration.milliseconds(1500).nanoseconds == 1_500_000_000)
  }
}
