@testable import Federation
@testable import Push
@testable import RelayClient
@testable import RelayConfiguration
@testable import RelayCore
@testable import Storage

/// Short texts of paths, headers, settings and rows: each that is taken must be written as it was read.
func fuzzWords(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  let text = body.text
  switch selector % 14 {
  case 0: if let number = AccountNumber(e164: text) { demand(number.e164 == text, "a number comes back") }
  case 1: if let device = DeviceID(text: text) { demand(DeviceID(text: device.description) == device, "a device") }
  case 2: if let cursor = ListingCursor(text: text) { demand(ListingCursor(text: cursor.text) == cursor, "a cursor") }
  case 3:
    guard let place = DirectoryPlace(cursorText: text) else { return }
    demand(DirectoryPlace(cursorText: place.cursorText) == place, "a place comes back")
  case 4: if let range = AddressRange(text: text), let any = ClientAddress(text: "10.1.2.3") { _ = range.contains(any) }
  case 5:
    guard let address = ClientAddress(text: text) else { return }
    demand([4, 16].contains(address.bytes.count) && !address.networks.isEmpty, "an address has its length")
    _ = PublicAddress.isPublic(text)
  case 6: if let url = PeerEndpoint(text) { demand(PeerEndpoint(url.text) == url, "an endpoint comes back") }
  case 7: if let url = WebURL(text) { demand(WebURL(url.text) == url, "a URL comes back") }
  case 8:
    guard let decoded = Base64.decode(body) else { return }
    demand(Base64.decode(Base64.encode(decoded, padded: true)) == decoded, "padded base64 comes back")
    demand(Base64.decode(Base64.encodeURLSafe(decoded)) == decoded, "URL-safe base64 comes back")
  case 9:
    if let serials = SerialsText.decode(text) {
      demand(SerialsText.decode(SerialsText.encode(serials)) == serials, "serials")
    }
  case 10:
    let parts = text.split(separator: "\n", maxSplits: 1)
    guard parts.count == 2 else { return }
    _ = PushGlob(parts[0]).matches(String(parts[1]))
  case 11:
    guard let token = ContactCodec.token(text) else { return }
    demand(ContactCodec.token(token.base64) == token, "a token comes back")
  case 12:
    _ = (
      PhoneNumber(text), ObliviousPrefix(text), FeedCursor(text), ProvisioningAddress(text), AttachmentID(text: text)
    )
  default: _ = (Set<Peer.Scope>(column: text), YAMLComplaint(text), RelayName(text))
  }
}
