import Hummingbird
import RelayCore

/// Groups of the listener's paths, by what stands before them; all are for active peers alone.
struct PeerRoutes {
  let router: Router<FederationContext>
  let budget: PeerBudget
  let refusals: PeerCounters

  /// Charged as requests, and covered by `scope`, or by any peering: for paths that read no body.
  func charged(_ scope: Peer.Scope? = nil) -> RouterGroup<PeerContext> {
    let group = uncharged.add(middleware: BudgetGate(budget: budget))
    return scope.map { group.add(middleware: ScopeGate(scope: $0, refusals: refusals)) } ?? group
  }

  /// Covered by `scope`; the controllers charge their requests together with what they ask for.
  func chargingThemselves(_ scope: Peer.Scope) -> RouterGroup<PeerContext> {
    uncharged.add(middleware: ScopeGate(scope: scope, refusals: refusals))
  }

  var uncharged: RouterGroup<PeerContext> { router.group(context: PeerContext.self) }
}
