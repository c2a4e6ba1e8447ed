import HeapModule
import OrderedCollections
package import RelayCore

/// Cuts a payload's texts until its JSON fits (reference 4.6).
///
/// The longest of the texts that may be cut loses its last character, again and again. The whole is measured once; each
/// character's share of it is known, so that the work grows with the bytes cut and not with their square.
package enum APNsShortening {
  /// - Returns: JSON in the spaced form; nil when it cannot be made to fit.
  package static func shorten(_ payload: JSONObject, bytesMax: Int) -> [UInt8]? {
    let whole = JSONValue.object(payload).bytes(.spaced)
    guard whole.count > bytesMax else { return whole }
    guard let lengths = lengths(of: texts(in: payload), cutting: whole.count - bytesMax) else { return nil }
    let bytes = JSONValue.object(replacing(payload, lengths)).bytes(.spaced)
    // Its own sums are not believed: what is sent is measured.
    return bytes.count <= bytesMax ? bytes : nil
  }

  /// A text and the bytes of UTF-8 that are left of it. The longer comes first, of equals the earlier.
  private struct Candidate: Comparable {
    let index: Int
    var length: Int

    static func < (a: Candidate, b: Candidate) -> Bool {
      a.length == b.length ? a.index > b.index : a.length < b.length
    }
  }

  /// - Parameter excess: bytes of JSON that have to go.
  /// - Returns: how much of each text is left, in bytes of UTF-8; nil when all of them together are not enough.
  private static func lengths(of texts: [[UInt8]], cutting excess: Int) -> [Int]? {
    var heap = Heap(texts.enumerated().map { Candidate(index: $0.offset, length: $0.element.count) })
    var lengths = texts.map(\.count)
    var excess = excess
    while excess > 0 {
      guard var longest = heap.max, longest.length > 0 else { return nil }
      let text = texts[longest.index]
      // Back to the first byte of the last character.
      repeat {
        longest.length -= 1
        excess -= JSONEscape(text[longest.length]).length
      } while longest.length > 0 && text[longest.length] & 0xC0 == 0x80
      lengths[longest.index] = longest.length
      heap.replaceMax(with: longest)
    }
    return lengths
  }

  // MARK: Which texts

  /// The alert, where it is a text; its body; then its arguments that are texts.
  private static func texts(in payload: JSONObject) -> [[UInt8]] {
    let alert = payload["aps"]?.object?["alert"]
    if let text = alert?.text { return [Array(text.utf8)] }
    let body = alert?.object?["body"]?.text.map { [Array($0.utf8)] } ?? []
    let arguments = alert?.object?["loc-args"]?.list ?? []
    return body + arguments.compactMap { $0.text.map { Array($0.utf8) } }
  }

  /// Puts what is left of `texts(in:)` in its places.
  private static func replacing(_ payload: JSONObject, _ lengths: [Int]) -> JSONObject {
    var rest = lengths[...]
    func next(_ text: String) -> JSONValue { .text(prefix(of: text, rest.popFirst() ?? 0)) }
    var payload = payload
    guard var aps = payload["aps"]?.object, let alert = aps["alert"] else { return payload }
    if let text = alert.text {
      aps["alert"] = next(text)
    } else if var words = alert.object {
      if let body = words["body"]?.text { words["body"] = next(body) }
      if let arguments = words["loc-args"]?.list {
        words["loc-args"] = .list(arguments.map { argument in argument.text.map(next) ?? argument })
      }
      aps["alert"] = .object(words)
    }
    payload["aps"] = .object(aps)
    return payload
  }

  /// - Parameter length: bytes of UTF-8; the end of a character.
  private static func prefix(of text: String, _ length: Int) -> String {
    String(decoding: text.utf8.prefix(length), as: UTF8.self)
  }
}
