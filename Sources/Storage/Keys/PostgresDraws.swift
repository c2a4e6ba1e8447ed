// Draws of prekeys. They gather as removals do: hundreds share a statement, and so a commit.

package import RelayCore
import RelayWork

/// One caller's draw.
struct PreKeyDraw: Sendable {
  let account: AccountNumber
  /// Each once.
  let devices: Set<DeviceID>
  /// The part of `devices` whose one-time keys may be taken.
  let oneTime: Set<DeviceID>
  /// The store's epoch has reached it at least, as the caller knows.
  let epoch: Int64

  var addresses: [DeviceAddress] { devices.map { DeviceAddress(account, $0) } }
}

extension PostgresStorage {
  typealias DrawCalls = BatchedCalls<PreKeyDraw, Result<[DrawnPreKey], StoreError>>

  package func drawPreKeys(of account: AccountNumber, devices: [DeviceID], oneTime: [DeviceID], epoch: Int64)
    async throws(StoreError) -> [DrawnPreKey]
  {
    let devices = Set(devices)
    guard !devices.isEmpty else { return [] }
    let draw = PreKeyDraw(
      account: account, devices: devices, oneTime: devices.intersection(oneTime), epoch: epoch)
    guard let outcome = await draws.outcome(of: draw) else {
      throw .unavailable(reason: "too many draws of prekeys wait")
    }
    return try outcome.get()
  }

  /// How much may gather, in devices. A lookup is for a handful.
  static let drawBounds = BatchQueue<DrawCalls.Member>.Bounds(
    batch: .init(items: 500), waiting: .init(items: 20_000), countsUnderWay: true)

  static func draw(_ batch: [DrawCalls.Member], layout: PostgresLayout, over connection: PostgresConnection) async {
    var supply: PreKeySupply
    do throws(PostgresError) {
      supply = try await Self.supply(for: batch.map(\.call), layout, over: connection)
    } catch {
      guard error.storeError.isOfPart, batch.count > 1 else {
        for member in batch { member.end(with: .failure(error.storeError)) }
        return
      }
      // The server refuses something in it, and nothing was drawn: it fails its own call and not its neighbours'.
      for member in batch { await draw([member], layout: layout, over: connection) }
      return
    }
    // In the order in which they came: the first gets the smallest id.
    for member in batch { member.end(with: supply.take(for: member.call)) }
  }

  /// Draws for all of `draws` in one transaction.
  ///
  /// One epoch holds for all: of the callers of a process none knows a higher one than the store has reached, unless
  /// the store was put back; then none of them may have a one-time key.
  private static func supply(
    for draws: [PreKeyDraw], _ layout: PostgresLayout, over connection: PostgresConnection
  ) async throws(PostgresError) -> PreKeySupply {
    var wanted: [DeviceAddress: Int64] = [:]
    for draw in draws {
      for device in draw.devices {
        wanted[DeviceAddress(draw.account, device), default: 0] += draw.oneTime.contains(device) ? 1 : 0
      }
    }
    let devices = wanted.map { WantedPreKeys(address: $0.key, oneTime: $0.value) }
    let epoch = draws.lazy.map(\.epoch).max() ?? 0
    switch layout {
    case .whole: return PreKeySupply(try await connection.sharedWrite(drawStep(devices, epoch: epoch)))
    case .distributed: return try await distributedSupply(of: devices, epoch: epoch, over: connection)
    }
  }

  /// A key that another statement holds is passed over, not waited for: the next one serves as well.
  ///
  /// The plan must not depend on what PostgreSQL believes of the tables' sizes. Each device is looked up by itself, so
  /// by the primary keys, and what is locked is deleted by its physical place (`PostgresStorage.remove`). `picked` is
  /// materialised, so that it runs once: what it locks is what is deleted.
  private static func drawStep(_ devices: [WantedPreKeys], epoch: Int64) -> PostgresStep {
    let keysMax = devices.reduce(0) { $0 + $1.oneTime }
    return PostgresStep(
      "draw_prekeys",
      """
      \(reserving: 200 + 36 * devices.count)
      WITH wanted AS MATERIALIZED (
          SELECT w.account, w.device, w.one_time, d.*
          FROM unnest(
              \(each: devices.lazy.map(\.address.account)), \(each: devices.lazy.map(\.address.device)),
              \(each: devices.lazy.map(\.oneTime)))
            AS w (account, device, one_time)
          CROSS JOIN LATERAL (
            SELECT d.registration_id, a.identity_key, d.signed_prekey_id, d.signed_prekey, d.signed_prekey_signature
            FROM devices AS d JOIN accounts AS a ON a.account = d.account
            WHERE d.account = w.account AND d.device = w.device AND a.identity_key IS NOT NULL
            LIMIT 1
          ) AS d
        ),
        picked AS MATERIALIZED (
          SELECT k.ctid
          FROM wanted AS w CROSS JOIN LATERAL (
            SELECT ctid FROM one_time_prekeys WHERE account = w.account AND device = w.device
            ORDER BY key_id LIMIT w.one_time FOR UPDATE SKIP LOCKED
          ) AS k
          WHERE w.one_time > 0 AND (SELECT value FROM epochs) >= \(epoch)
          LIMIT \(keysMax)
        ),
        drawn AS (
          DELETE FROM one_time_prekeys AS k USING picked AS p WHERE k.ctid = p.ctid
          RETURNING k.account, k.device, k.key_id, k.public_key
        )
      SELECT w.account, w.device, w.registration_id, w.identity_key, o.key_id, o.public_key, l.key_id, l.public_key,
        w.signed_prekey_id, w.signed_prekey, w.signed_prekey_signature
      FROM wanted AS w
      LEFT JOIN drawn AS o ON o.account = w.account AND o.device = w.device
      LEFT JOIN LATERAL (
        SELECT key_id, public_key FROM last_resort_prekeys WHERE account = w.account AND device = w.device LIMIT 1
      ) AS l ON true
      ORDER BY w.account, w.device, o.key_id
      """)
  }
}

/// How many draws of a batch want a one-time key of a device.
struct WantedPreKeys {
  let address: DeviceAddress
  let oneTime: Int64
}

/// The keys that one transaction has drawn for several callers. It hands each one-time key out once.
struct PreKeySupply {
  /// One device's part.
  private struct Device {
    /// With the last resort.
    let shown: DrawnPreKey
    /// By rising id.
    var oneTime: [PreKey]
  }

  private var devices: [DeviceAddress: Device] = [:]
  /// Why something of these cannot be read: it fails those who draw from them.
  private var unread: [DeviceAddress: StoreError] = [:]
  /// Why it is not even known of which device.
  private var unknown: StoreError?

  /// - Parameter result: a device has a row for each of its one-time keys, and one if it has none.
  init(_ result: PostgresResult) {
    for row in result.rows {
      var row = result.cursor(row: row)
      do throws(StoreError) {
        try add(&row)
      } catch {
        unknown = error
      }
    }
  }

  /// - Parameters:
  ///   - devices: a row for each device, read ahead of the keys.
  ///   - keys: a row for each key, of several statements. The last column tells a last resort.
  ///   - after: as `devices`, read behind the keys.
  init(devices: PostgresResult, keys: some Sequence<PostgresResult>, devicesAfter after: PostgresResult) {
    do throws(StoreError) {
      var oneTime: [DeviceAddress: [PreKey]] = [:]
      var lastResorts: [DeviceAddress: PreKey] = [:]
      for result in keys {
        for row in result.rows {
          var row = result.cursor(row: row)
          let address = DeviceAddress(try row.account(), try row.device())
          do throws(StoreError) {
            guard let key = try PreKey(optional: &row) else { continue }
            if try row.boolean() { lastResorts[address] = key } else { oneTime[address, default: []].append(key) }
          } catch {
            unread[address] = error
          }
        }
      }
      let lasting = try Self.installations(after)
      for row in devices.rows {
        var row = devices.cursor(row: row)
        let address = DeviceAddress(try row.account(), try row.device())
        do throws(StoreError) {
          let (registrationID, identityKey) = (try row.integer(), try row.opaque())
          guard lasting[address] == Installation(registrationID: registrationID, identityKey: identityKey) else {
            throw .unavailable(reason: "the device was installed anew meanwhile")
          }
          let shown = DrawnPreKey(
            device: address.device, registrationID: registrationID, identityKey: identityKey,
            preKey: lastResorts[address], signedPreKey: try SignedPreKey(optional: &row))
          let byID = (oneTime[address] ?? []).sorted { $0.keyID < $1.keyID }
          self.devices[address] = Device(shown: shown, oneTime: byID)
        } catch {
          unread[address] = error
        }
      }
    } catch {
      unknown = error
    }
  }

  /// Both change when a device is installed anew.
  private struct Installation: Equatable {
    let registrationID: Int32
    let identityKey: String
  }

  private static func installations(_ devices: PostgresResult) throws(StoreError) -> [DeviceAddress: Installation] {
    var found: [DeviceAddress: Installation] = [:]
    for row in devices.rows {
      var row = devices.cursor(row: row)
      let address = DeviceAddress(try row.account(), try row.device())
      found[address] = Installation(registrationID: try row.integer(), identityKey: try row.opaque())
    }
    return found
  }

  private mutating func add(_ row: inout PostgresRow) throws(StoreError) {
    let address = DeviceAddress(try row.account(), try row.device())
    do throws(StoreError) {
      let (registrationID, identityKey) = (try row.integer(), try row.opaque())
      let (oneTime, lastResort) = (try PreKey(optional: &row), try PreKey(optional: &row))
      let shown = DrawnPreKey(
        device: address.device, registrationID: registrationID, identityKey: identityKey, preKey: lastResort,
        signedPreKey: try SignedPreKey(optional: &row))
      devices[address, default: Device(shown: shown, oneTime: [])].oneTime += oneTime.map { [$0] } ?? []
    } catch {
      unread[address] = error
    }
  }

  /// Takes the keys of one caller: one-time keys where he may have them and some are left, else last resorts.
  mutating func take(for draw: PreKeyDraw) -> Result<[DrawnPreKey], StoreError> {
    if let error = unknown ?? draw.addresses.compactMap({ unread[$0] }).first { return .failure(error) }
    var drawn: [DrawnPreKey] = []
    for device in draw.devices.sorted() {
      let address = DeviceAddress(draw.account, device)
      guard var found = devices[address] else { continue }
      var shown = found.shown
      if draw.oneTime.contains(device), !found.oneTime.isEmpty {
        shown = shown.with(found.oneTime.removeFirst())
        devices[address] = found
      }
      if shown.preKey != nil || shown.signedPreKey != nil { drawn.append(shown) }
    }
    return .success(drawn)
  }
}

extension DrawnPreKey {
  fileprivate func with(_ preKey: PreKey) -> DrawnPreKey {
    DrawnPreKey(
      device: device, registrationID: registrationID, identityKey: identityKey, preKey: preKey,
      signedPreKey: signedPreKey)
  }
}

extension PreKey {
  /// Two columns; nil when the first is NULL.
  fileprivate init?(optional row: inout PostgresRow) throws(StoreError) {
    let (id, publicKey) = (try row.optionalBigint(), row.optionalOpaque())
    guard let id else { return nil }
    self.init(keyID: id, publicKey: try row.required(publicKey))
  }
}
