import CXML2

/// The library that reads XML here.
package enum XMLLibrary {
  /// That this process was built with.
  package static var version: String { LIBXML_DOTTED_VERSION }
}

/// A document as libxml2 has read it: well-formed to its end, in UTF-8, without a document type or an instruction.
///
/// So nothing is ever expanded or fetched: entities are declared in document types alone. Depth and sizes are the
/// library's own bounds (256 elements), far above what a bounded body holds.
final class XMLTree {
  enum Fault: Error {
    case malformed
    case documentType
    case processingInstruction
  }

  /// An element of the tree. Comments are passed over.
  struct Element {
    /// The names and texts are its.
    fileprivate let tree: XMLTree
    fileprivate let node: xmlNodePtr

    /// Without a prefix.
    var name: String { XMLTree.text(node.pointee.name) }
    /// nil for none.
    var namespace: String? { node.pointee.ns.flatMap { $0.pointee.href }.map { XMLTree.text($0) } }

    /// In their order.
    var children: [Element] {
      nodes.filter { $0.pointee.type == XML_ELEMENT_NODE }.map { Element(tree: tree, node: $0) }
    }

    /// Its own, not that of elements in it.
    var text: String {
      nodes.filter { $0.pointee.type == XML_TEXT_NODE || $0.pointee.type == XML_CDATA_SECTION_NODE }
        .map { XMLTree.text($0.pointee.content) }.joined()
    }

    private var nodes: [xmlNodePtr] {
      Array(
        sequence(state: node.pointee.children) { next in
          defer { next = next?.pointee.next }
          return next
        })
    }
  }

  private let document: xmlDocPtr

  /// - Parameter bytes: the whole document.
  init(_ bytes: [UInt8]) throws(Fault) {
    document = try Self.parse(bytes)
  }

  deinit { xmlFreeDoc(document) }

  /// nil for none.
  var root: Element? { xmlDocGetRootElement(document).map { Element(tree: self, node: $0) } }

  private static func parse(_ bytes: [UInt8]) throws(Fault) -> xmlDocPtr {
    _ = isLibraryReady
    // UTF-16 brings a NUL with each ASCII character; what is in another encoding must say so, which is looked at below.
    guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil, let length = Int32(exactly: bytes.count),
      let context = xmlNewParserCtxt()
    else { throw .malformed }
    defer { xmlFreeParserCtxt(context) }
    let refusal = UnsafeMutablePointer<Fault?>.allocate(capacity: 1)
    refusal.initialize(to: nil)
    defer { refusal.deallocate() }
    context.pointee._private = UnsafeMutableRawPointer(refusal)
    // Told as soon as a document type is named: nothing of it is read.
    context.pointee.sax.pointee.internalSubset = { context, _, _, _ in XMLTree.refuse(context, .documentType) }
    context.pointee.sax.pointee.processingInstruction = { context, _, _ in
      XMLTree.refuse(context, .processingInstruction)
    }
    let document = bytes.withUnsafeBytes { bytes in
      xmlCtxtReadMemory(context, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), length, nil, nil, options)
    }
    if let fault = refusal.pointee {
      xmlFreeDoc(document)
      throw fault
    }
    guard let document else { throw .malformed }
    guard document.pointee.encoding.map({ text($0).lowercased() == "utf-8" }) ?? true else {
      xmlFreeDoc(document)
      throw .malformed
    }
    return document
  }

  /// Ends the reading.
  private static func refuse(_ context: UnsafeMutableRawPointer?, _ fault: Fault) {
    guard let context = context?.assumingMemoryBound(to: xmlParserCtxt.self) else { return }
    context.pointee._private?.assumingMemoryBound(to: Fault?.self).pointee = fault
    xmlStopParser(context)
  }

  fileprivate static func text(_ text: UnsafePointer<xmlChar>?) -> String { text.map { String(cString: $0) } ?? "" }

  /// Nothing over the network, nothing to standard error. Entities are not expanded, and no document type is loaded,
  /// unless that is asked for.
  private static let options = Int32(
    XML_PARSE_NONET.rawValue | XML_PARSE_NOERROR.rawValue | XML_PARSE_NOWARNING.rawValue)

  /// Before the first use, once, where several threads use it.
  private static let isLibraryReady: Bool = {
    xmlInitParser()
    return true
  }()
}
