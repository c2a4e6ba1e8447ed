import RelayConfiguration
import RelayCore

/// What reaches people: verification codes.
struct DeliveryChecks {
  private let site: DoctorSite

  init(_ site: DoctorSite) { self.site = site }

  var all: [DoctorCheck] {
    [DoctorCheck(group: .verification, name: "sender") { [sender] }]
  }

  private var sender: Finding {
    switch site.settings.verification.sender {
    case .log:
      .warned(
        "codes go to the log: nobody can register by phone",
        remedy: "Set verification.sender to twilio or webhook where people are.")
    case .webhook(let url, _): .ok("codes go to \(url.host)")
    case .twilio(_, _, _, let url): .ok("codes go out by Twilio, at \(url.host)")
    }
  }
}
