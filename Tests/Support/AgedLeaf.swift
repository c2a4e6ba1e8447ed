// An operator's certificates of another day.

import Federation
import Foundation
import RelayCore

extension RelayOperator {
  /// Issues a leaf by the operator's CA as if `days` had passed since: one lasts 90.
  package func issueLeaf(daysAgo days: Int) throws {
    guard let relay = RelayName(name), let endpoint = PeerEndpoint("https://127.0.0.1:\(federationPort)") else {
      throw TestFailure("no relay can have this name or port")
    }
    let now = Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000))
    try IdentityFolder(path: folder + "/federation").issueLeaf(
      for: relay, at: endpoint, now: now.adding(.seconds(-86_400 * days)))
  }
}
