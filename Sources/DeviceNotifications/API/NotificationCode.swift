/// Why a request was not served, as the interface numbers it (docs/device-notifications.md, "Codes").
package enum NotificationCode: Int, Error, Sendable, CaseIterable {
  case authorizationMissing = 7
  case tooManyMessages = 11
  case notEnoughCredits = 12
  case unknownError = 13
  case userEmpty = 22
  case userMissing = 23
  case passwordEmpty = 24
  case passwordMissing = 25
  case noRecipients = 28
  case unknownRecipient = 46
  case invalidProvider = 60
  case invalidKey = 61
  case messageTooLong = 63
  case invalidDelay = 64
  case invalidCollapseKey = 65
  case invalidTime = 66
  case invalidTimeToLive = 67
  case invalidPackageName = 68
  case invalidMessageNumber = 391
  case messageNumberMissing = 392
  case invalidRecipient = 412

  package var text: String {
    switch self {
    case .authorizationMissing: "Authorization missing"
    case .tooManyMessages: "Maximum number of messages exceeded"
    case .notEnoughCredits: "Not enough credits left to send message"
    case .unknownError: "Unknown error"
    case .userEmpty: "No value in parameter 'user'"
    case .userMissing: "Parameter 'user' missing"
    case .passwordEmpty: "No value in parameter 'pwd'"
    case .passwordMissing: "Parameter 'pwd' missing"
    case .noRecipients: "No valid values in parameter 'recipients'"
    case .unknownRecipient: "Cannot find a recipient with the supplied recipient ID"
    case .invalidProvider: "Invalid 'spid' value"
    case .invalidKey: "Invalid 'key' value"
    case .messageTooLong: "'message' too long"
    case .invalidDelay: "Invalid 'delaywhileidle' value"
    case .invalidCollapseKey: "Invalid 'collapsekey' value"
    case .invalidTime: "Invalid 'sentafter' value"
    case .invalidTimeToLive: "Invalid 'timetolive' value"
    case .invalidPackageName: "Invalid 'restrictedpackagename' value"
    case .invalidMessageNumber: "Invalid 'msgno' value"
    case .messageNumberMissing: "Parameter 'msgno' missing"
    case .invalidRecipient: "Invalid 'recipientid' value"
    }
  }

  /// Whether a caller that guesses names, passwords or numbers gets this code.
  var isFailedLookUp: Bool {
    switch self {
    case .authorizationMissing, .unknownRecipient, .invalidRecipient: true
    default: false
    }
  }
}
