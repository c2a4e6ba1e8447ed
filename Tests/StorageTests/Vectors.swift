// The published vectors that stores and limits have to meet.

import Foundation

struct Vectors: Decodable {
  struct PreKeySelection: Decodable {
    struct Uploaded: Decodable {
      let keys: [Int64]
      let lastResort: Int64
    }
    let uploaded: Uploaded
    let rule: String
    let serves: [Int64]?
    let servesRecommended: [Int64]?
    let countBeforeEach: [Int]?

    enum CodingKeys: String, CodingKey {
      case uploaded, rule, serves
      case servesRecommended = "serves_recommended"
      case countBeforeEach = "count_before_each"
    }
  }

  struct LeakyBucket: Decodable, Sendable {
    struct Event: Decodable, Sendable {
      let atMillis: Int64
      let amount: Double
      enum CodingKeys: String, CodingKey {
        case atMillis = "at_millis"
        case amount
      }
    }
    let name: String
    let size: Double
    let perMinute: Double
    let events: [Event]
    let allowed: [Bool]

    enum CodingKeys: String, CodingKey {
      case name, events
      case size = "bucket_size"
      case perMinute = "leak_per_minute"
      case allowed = "allowed_fractional_recommended"
    }
  }

  struct DirectorySync: Decodable {
    let remoteInactive: Bool
    let existingEntry: String
    let action: String
    enum CodingKeys: String, CodingKey {
      case remoteInactive = "remote_inactive"
      case existingEntry = "existing_entry"
      case action
    }
  }

  let preKeySelection: [PreKeySelection]
  let leakyBucket: [LeakyBucket]
  let directorySync: [DirectorySync]
  enum CodingKeys: String, CodingKey {
    case preKeySelection = "prekey_selection"
    case leakyBucket = "leaky_bucket"
    case directorySync = "directory_sync"
  }

  static func load() throws -> Vectors {
    let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    let file = tests.appendingPathComponent("RelayCoreTests/Vectors/textsecure-vectors.json")
    return try JSONDecoder().decode(Vectors.self, from: Data(contentsOf: file))
  }
}
