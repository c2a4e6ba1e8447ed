import TestTags
import Testing

@testable import RelayCore

/// Tokens that are read without a string are the ones that strings would give.
@Suite(.tags(.unit)) struct PlainTokenTests {
  @Test func `every way to write a token reads as the same`() throws {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<2000 {
      let token = ContactToken(high: random.next(), low: random.next())
      let plain = token.base64
      #expect(plain.utf8.count == ContactToken.plainTextLength)
      let safe = String(plain.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
      let escaped = plain.unicodeScalars.map { $0 == "A" ? "\\u0041" : $0 == "/" ? "\\/" : String($0) }.joined()
      for text in [plain, safe, plain + "==", escaped] {
        #expect(Self.decode(#"{"contacts":["\#(text)"]}"#) == [token])
        #expect(Self.decode(#"{ "contacts" : [ "\#(text)" , "\#(plain)" ] }"#) == [token, token])
      }
    }
  }

  @Test(arguments: [",", ", ", " ,", " , ", ",\n\t", ",  "])
  func `lists read as they are written, whatever stands between their tokens`(separator: String) throws {
    var random = SeededGenerator(seed: 5)
    for count in [0, 1, 2, 3, 7, 100] {
      let tokens = (0..<count).map { _ in ContactToken(high: random.next(), low: random.next()) }
      let texts = tokens.enumerated().map { index, token in
        // Between plain ones some that only a string can hold.
        index % 5 == 3 ? "\"\(token.base64)==\"" : "\"\(token.base64)\""
      }
      let list = texts.joined(separator: separator)
      for json in [#"{"contacts":[\#(list)]}"#, #"{"a":[[1]],"contacts":[ \#(list) ],"cursor":7}"#] {
        #expect(Self.decode(json) == tokens)
      }
    }
  }

  @Test(arguments: [
    "AAAAAAAAAAAAA", "AAAAAAAAAAAAAAA", "AAAAAAAAAAAAA!", "!AAAAAAAAAAAAA", "AAAAAAAAAA AAA", "AAAAAAAAAAAAA=", "",
    "AAAAAAAAAAA\u{E9}A", #"\u0000"#, #"AAAAAAAAAAAAA\u0000"#, #"AAAAAAAAAAAAAA\u0000"#,
  ]) func `a malformed token is undecodable`(text: String) {
    #expect(Self.outcome(#"{"contacts":["\#(text)"]}"#) == "undecodable")
    #expect(Self.outcome(#"{"contacts":["AAAAAAAAAAAAAA","\#(text)"]}"#) == "undecodable")
    #expect(Self.outcome(#"{"contacts":["\#(text)","AAAAAAAAAAAAAA"]}"#) == "undecodable")
  }

  @Test(arguments: [
    #"{"contacts":["AAAAAAAAAAAAAA"#, #"{"contacts":["AAAAAAAAAAAAAA""#, #"{"contacts":["AAAAAAAAAAAAAA"]"#,
    #"{"contacts":["AAAAAAAAAAAAAA" "AAAAAAAAAAAAAA"]}"#, #"{"contacts":["AAAAAAAAAAAAAA",]}"#,
    #"{"contacts":["AAAAAAAAAAAAAA", ]}"#, #"{"contacts":["AAAAAAAAAAAAAA",,"AAAAAAAAAAAAAA"]}"#,
    #"{"contacts":["AAAAAAAAAAAAAA","AAAAAAAAAAAAAA"}"#, #"{"contacts":["AAAAAAAAAAAAAA","#,
    #"{"contacts":["AAAAAAAAAAAAAA", "#, #"{"contacts":[AAAAAAAAAAAAAAAA]}"#,
  ]) func `a broken body stays a broken body`(json: String) {
    #expect(Self.outcome(json) == "malformed")
  }

  @Test func `more tokens than may be asked for are refused, and what follows is not read`() {
    let five = Array(repeating: #""AAAAAAAAAAAAAA""#, count: 5)
    for separator in [",", ", ", " ,"] {
      let list = five.joined(separator: separator)
      #expect(Self.outcome(#"{"contacts":[\#(list)]}"#, max: 5) == "5 tokens")
      #expect(Self.outcome(#"{"contacts":[\#(list)]}"#, max: 4) == "too many")
      // A body that breaks off behind them, and one with something else there.
      #expect(Self.outcome(#"{"contacts":[\#(list)"#, max: 4) == "too many")
      #expect(Self.outcome(#"{"contacts":[\#(list),7]}"#, max: 5) == "too many")
    }
    #expect(Self.outcome(#"{"contacts":["x","x"]}"#, max: 1) == "undecodable", "what is no token is none of them")
    #expect(Self.outcome(#"{"contacts":[],"more":[\#(five.joined(separator: ","))]}"#, max: 1) == "0 tokens")
  }

  @Test func `a cursor is read where it is asked for, and is a property like any other where it is not`() throws {
    let json = Array(#"{"cursor":"1-2","contacts":["AAAAAAAAAAAAAA"]}"#.utf8)
    #expect(try ContactQuery.decode(json.span.bytes, tokensMax: 9, hasCursor: true).cursor == "1-2")
    #expect(try ContactQuery.decode(json.span.bytes, tokensMax: 9).cursor == nil)
    for text in [#"{"contacts":[]}"#, #"{"contacts":[],"cursor":null}"#] {
      let bytes = Array(text.utf8)
      #expect(try ContactQuery.decode(bytes.span.bytes, tokensMax: 9, hasCursor: true).cursor == nil)
    }
    #expect(Self.outcome(#"{"contacts":[],"cursor":[]}"#, max: 9, hasCursor: true) == "wrongShape")
    #expect(Self.outcome(#"{"contacts":[],"cursor":[]}"#) == "0 tokens")
  }

  private static func decode(_ json: String) -> [ContactToken]? {
    let bytes = Array(json.utf8)
    return (try? ContactQuery.decode(bytes.span.bytes, tokensMax: 1000))?.tokens
  }

  private static func outcome(_ json: String, max: Int = 1000, hasCursor: Bool = false) -> String {
    let bytes = Array(json.utf8)
    do throws(ContactQuery.Refusal) {
      let query = try ContactQuery.decode(bytes.span.bytes, tokensMax: max, hasCursor: hasCursor)
      return "\(query.tokens.count) tokens"
    } catch {
      switch error {
      case .undecodable: return "undecodable"
      case .tooMany: return "too many"
      case .json(let reason): return "\(reason)"
      }
    }
  }
}
