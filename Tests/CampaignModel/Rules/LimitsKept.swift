/// No party gets more than a limiter allows and its documented slack.
///
/// A limiter allows `size` at once and `perMinute` from then on. Coordination that lost its data counts anew: `size`
/// for each loss. While it is away each process counts alone, in a quarter of the size.
package struct LimitsKept: Rule {
  package let name = "limits are kept"
  package private(set) var violations = Violations()

  private struct Terms {
    let size: Int
    let perMinute: Double
    let processes: Int
  }
  /// The relay charged for it some time in between.
  private struct Grant {
    let begun: Moment
    let answered: Moment
  }
  private struct Bucket: Hashable {
    let name: String
    let site: String
  }
  private struct Alone {
    let site: String
    let begun: Moment
    var ended: Moment?
  }

  private var terms: [String: Terms] = [:]
  private var grants: [Bucket: [Grant]] = [:]
  /// When coordination could not be asked, and processes were ended that counted alone.
  private var alone: [Int: Alone] = [:]
  private var over: Set<Bucket> = []
  private static let rememberedMax = 600

  package init() {}

  package mutating func take(_ step: Step, at now: Moment, _ trouble: Trouble) {
    switch step {
    case .saw(.limit(let bucket, let size, let perMinute, let processes)):
      terms[bucket] = Terms(size: size, perMinute: perMinute, processes: processes)
    case .saw(.faultBegan(let number, let kind, let site, _)) where kind.mayHideCoordination:
      alone[number] = Alone(site: site, begun: now)
    case .saw(.faultEnded(let number)): alone[number]?.ended = now
    case .answered(let invocation, let answer):
      guard case .charge(let name) = invocation.call, let terms = terms[name] else { return }
      if case .refused = answer { return }
      let bucket = Bucket(name: name, site: invocation.place.site)
      grants[bucket, default: []].append(Grant(begun: invocation.at, answered: now))
      if let count = grants[bucket]?.count, count > Self.rememberedMax {
        grants[bucket]?.removeFirst(count - Self.rememberedMax)
      }
      check(bucket, terms, now, trouble)
    default: break
    }
  }

  /// Whether of any time that ends now more was certainly granted within it than it allows.
  private mutating func check(_ bucket: Bucket, _ terms: Terms, _ now: Moment, _ trouble: Trouble) {
    let all = grants[bucket] ?? []
    let begins = all.map(\.begun).sorted(by: >)
    for (index, begin) in begins.enumerated() where index + 1 > terms.size {
      let allowed = allowance(terms, bucket.site, from: begin, to: now, trouble)
      guard Double(index + 1) > allowed else { continue }
      // The same flood is told once.
      if over.insert(bucket).inserted {
        violations.add(
          "\(now): \(index + 1) charges of \(bucket.name) at \(bucket.site) since \(begin), and \(Int(allowed)) allowed"
        )
      }
      return
    }
    over.remove(bucket)
  }

  private func allowance(
    _ terms: Terms, _ site: String, from begin: Moment, to end: Moment, _ trouble: Trouble
  ) -> Double {
    let minutes = (end - begin) / .seconds(60)
    let own = Double(terms.size) + terms.perMinute * minutes
    // A loss in coordination shows to the relay some time after it happened.
    let losses = trouble.forgotten.count { $0.site == site && $0.at >= begin && $0.at <= end }
    let lonely = alone.values.count { fault in
      fault.site == site && fault.begun <= end && (fault.ended.map { $0 + .seconds(5) >= begin } ?? true)
    }
    let quarter = (Double(terms.size) / 4).rounded(.up) + terms.perMinute / 4 * minutes
    // Each process may owe a sixteenth (docs/decisions/2026-11-24-leased-limits.md).
    let leases = Double(terms.processes * terms.size) / 16
    return own + leases + Double(losses * terms.size) + Double(lonely * terms.processes) * quarter
  }
}
