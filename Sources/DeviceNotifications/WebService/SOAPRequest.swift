import Foundation
import FoundationXML

/// What a `ReceivedMsgRequest` asks for; a field that is not there is nil.
struct SOAPRequest: Sendable, Equatable {
  var user: String?
  var password: String?
  var lastMessageNumber: String?

  /// Why a document is none.
  enum Fault: Error, Equatable {
    /// No XML, or not in UTF-8.
    case malformed
    /// It has a document type: with it come entities.
    case documentType
    /// No envelope of SOAP 1.1, or another request.
    case unknownRequest
  }

  static let envelope = "http://schemas.xmlsoap.org/soap/envelope/"
  static let namespace = "urn:device-notifications:v2"

  init() {}

  /// - Parameter bytes: the whole document.
  init(_ bytes: [UInt8]) throws(Fault) {
    let bytes = bytes.starts(with: Self.byteOrderMark) ? Array(bytes.dropFirst(Self.byteOrderMark.count)) : bytes
    // Another encoding could hide a document type from the search for one: UTF-16 brings a NUL with each ASCII character,
    // others must be declared.
    guard !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self), Self.isDeclaredAsUTF8(text) else {
      throw .malformed
    }
    guard !Self.contains(bytes, "<!DOCTYPE"), !Self.contains(bytes, "<!ENTITY") else { throw .documentType }
    let reader = SOAPReader()
    let parser = XMLParser(data: Data(bytes))
    parser.shouldProcessNamespaces = true
    parser.shouldResolveExternalEntities = false
    parser.delegate = reader
    let isXML = parser.parse()
    if let fault = reader.fault { throw fault }
    guard isXML else { throw .malformed }
    guard let request = reader.request else { throw .unknownRequest }
    self = request
  }

  private static func contains(_ bytes: [UInt8], _ word: StaticString) -> Bool {
    word.withUTF8Buffer { word in
      bytes.indices.contains { bytes[$0...].starts(with: word) }
    }
  }

  /// Of UTF-8.
  private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

  /// UTF-8 is what a document without a declaration is in. A declaration has no bound: its end may be anywhere.
  private static func isDeclaredAsUTF8(_ text: String) -> Bool {
    guard text.hasPrefix("<?xml") else { return true }
    guard let end = text.range(of: "?>") else { return false }
    let declaration = text[..<end.lowerBound]
    // Nor may there be more than one, of which a parser might take another.
    let parts = declaration.components(separatedBy: "encoding")
    guard parts.count <= 2 else { return false }
    guard parts.count == 2, let last = parts.last else { return true }
    let value = last.drop { $0.isWhitespace || $0 == "=" }.lowercased()
    return ["\"utf-8\"", "'utf-8'"].contains { value.hasPrefix($0) }
  }
}

/// Collects the fields of the one request in the envelope's body.
private final class SOAPReader: NSObject, XMLParserDelegate {
  private(set) var request: SOAPRequest?
  private(set) var fault: SOAPRequest.Fault?
  private var path: [String] = []
  private var text = ""
  private static let depthMax = 16

  func parser(
    _ parser: XMLParser, didStartElement elementName: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String] = [:]
  ) {
    path.append(elementName)
    text = ""
    let isExpected: Bool =
      switch path.count {
      case 1: elementName == "Envelope" && namespaceURI == SOAPRequest.envelope
      case 2: namespaceURI == SOAPRequest.envelope && (elementName == "Header" || elementName == "Body")
      case 3 where path[1] == "Body":
        elementName == "ReceivedMsgRequest" && namespaceURI == SOAPRequest.namespace && request == nil
      default: path.count <= Self.depthMax
      }
    guard isExpected else {
      fault = .unknownRequest
      return parser.abortParsing()
    }
    if path.count == 3, path[1] == "Body" { request = SOAPRequest() }
  }

  func parser(
    _ parser: XMLParser, didEndElement elementName: String, namespaceURI: String?, qualifiedName: String?
  ) {
    if path.count > 3, path[1] == "Body", var read = request {
      // The first of each counts.
      switch path[3...] {
      case ["identification", "user"] where read.user == nil: read.user = text
      case ["identification", "password"] where read.password == nil: read.password = text
      case ["lastMsgNo"] where read.lastMessageNumber == nil: read.lastMessageNumber = text
      default: break
      }
      request = read
    }
    _ = path.popLast()
    text = ""
  }

  func parser(_ parser: XMLParser, foundCharacters string: String) { text += string }

  func parser(_ parser: XMLParser, foundCDATA block: Data) { text += String(decoding: block, as: UTF8.self) }

  // What the search for a document type may have missed.

  func parser(_ parser: XMLParser, foundInternalEntityDeclarationWithName name: String, value: String?) {
    refuse(parser)
  }

  func parser(
    _ parser: XMLParser, foundExternalEntityDeclarationWithName name: String, publicID: String?, systemID: String?
  ) {
    refuse(parser)
  }

  func parser(_ parser: XMLParser, resolveExternalEntityName name: String, systemID: String?) -> Data? {
    refuse(parser)
    return nil
  }

  private func refuse(_ parser: XMLParser) {
    fault = .documentType
    parser.abortParsing()
  }
}
