/// The fields of a `ReceivedMsgRequest`; a field that is not there is nil.
struct SOAPRequest: Sendable, Equatable {
  var user: String?
  var password: String?
  var lastMessageNumber: String?

  /// Why a document is none.
  enum Fault: Error, Equatable {
    /// No well-formed XML, or not in UTF-8.
    case malformed
    /// It has a document type: with it come entities.
    case documentType
    /// SOAP forbids them (SOAP 1.1, section 3).
    case processingInstruction
    /// No envelope of SOAP 1.1, or another request.
    case unknownRequest
  }

  static let envelope = "http://schemas.xmlsoap.org/soap/envelope/"
  static let namespace = "urn:device-notifications:v2"
  private static let depthMax = 16

  /// - Parameter bytes: the whole document.
  init(_ bytes: [UInt8]) throws(Fault) {
    let root = try Self.root(of: bytes)
    guard root.name == "Envelope", root.namespace == Self.envelope, !Self.isDeep(root, max: Self.depthMax) else {
      throw .unknownRequest
    }
    var requests: [XMLTree.Element] = []
    for part in root.children {
      guard part.namespace == Self.envelope, ["Header", "Body"].contains(part.name) else { throw .unknownRequest }
      if part.name == "Body" { requests += part.children }
    }
    guard requests.count == 1, requests[0].name == "ReceivedMsgRequest", requests[0].namespace == Self.namespace else {
      throw .unknownRequest
    }
    // The first of each counts.
    let fields = requests[0].children
    let identification = fields.filter { $0.name == "identification" }.flatMap(\.children)
    user = identification.first { $0.name == "user" }?.text
    password = identification.first { $0.name == "password" }?.text
    lastMessageNumber = fields.first { $0.name == "lastMsgNo" }?.text
  }

  private static func root(of bytes: [UInt8]) throws(Fault) -> XMLTree.Element {
    do throws(XMLTree.Fault) {
      guard let root = try XMLTree(bytes).root else { throw XMLTree.Fault.malformed }
      return root
    } catch {
      switch error {
      case .malformed: throw .malformed
      case .documentType: throw .documentType
      case .processingInstruction: throw .processingInstruction
      }
    }
  }

  private static func isDeep(_ element: XMLTree.Element, max: Int) -> Bool {
    max < 1 || element.children.contains { isDeep($0, max: max - 1) }
  }
}
