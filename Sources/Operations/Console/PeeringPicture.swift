import Foundation
import RelayCore

/// The peering as a picture: this relay in the middle, its peers around it (SVG, without scripts and styles of its
/// own).
struct PeeringPicture {
  let relay: String
  let peers: [PeerDescription]

  /// Beyond it the table alone shows them.
  private static let peersMax = 24
  private static let (width, height) = (760.0, 420.0)

  var svg: String {
    let drawn = Array(peers.prefix(Self.peersMax))
    var text = """
      <svg class="picture" viewBox="0 0 \(Int(Self.width)) \(Int(Self.height))" role="img" aria-labelledby="picture-title picture-text">
      <title id="picture-title">Peering of \(Self.escaped(relay))</title>
      <desc id="picture-text">\(Self.escaped(summary))</desc>

      """
    let places = drawn.indices.map { Self.place($0, of: drawn.count) }
    let (x, y) = (Self.width / 2, Self.height / 2)
    for (peer, place) in zip(drawn, places) {
      text += """
        <line class="\(PeerLook(peer.peer).rawValue)" x1="\(Self.figure(x))" y1="\(Self.figure(y))" \
        x2="\(Self.figure(place.x))" y2="\(Self.figure(place.y))"/>

        """
    }
    for (peer, place) in zip(drawn, places) {
      text += Self.node(peer.name.text, PeerLook(peer.peer).rawValue, place.x, place.y)
    }
    text += Self.node(relay, "own", x, y)
    return text + "</svg>"
  }

  /// The same in words.
  private var summary: String {
    func names(_ look: PeerLook) -> String {
      let names = peers.filter { PeerLook($0.peer) == look }.map(\.name.text)
      return names.isEmpty ? "none" : names.joined(separator: ", ")
    }
    let more = peers.count > Self.peersMax ? " The picture shows the first \(Self.peersMax)." : ""
    return "Reachable: \(names(.reachable)). Away: \(names(.away)). Suspended: \(names(.suspended)).\(more)"
  }

  private static func node(_ name: String, _ kind: String, _ x: Double, _ y: Double) -> String {
    let short = name.count > 22 ? name.prefix(21) + "…" : name[...]
    let state = kind == "own" || kind == "reachable" ? "" : " (\(kind))"
    let half = Double(short.count + state.count) * 4 + 14
    return """
      <g class="\(kind)"><rect x="\(figure(x - half))" y="\(figure(y - 15))" width="\(figure(half * 2))" height="30" rx="6"/>\
      <text x="\(figure(x))" y="\(figure(y + 5))">\(escaped(String(short) + state))</text></g>

      """
  }

  /// Evenly on an ellipse, the first at its top.
  private static func place(_ index: Int, of count: Int) -> (x: Double, y: Double) {
    let angle = Double(index) / Double(max(count, 1)) * 2 * .pi - .pi / 2
    // Neighbours of many stand on two rings, so that their names do not cover each other.
    let ring = count > 12 && index % 2 == 1 ? 0.62 : 1
    return (width / 2 + cos(angle) * (width / 2 - 120) * ring, height / 2 + sin(angle) * (height / 2 - 30) * ring)
  }

  private static func figure(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }

  private static func escaped(_ text: String) -> String {
    text.reduce(into: "") { result, character in
      switch character {
      case "&": result += "&amp;"
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "\"": result += "&quot;"
      default: result.append(character)
      }
    }
  }
}
