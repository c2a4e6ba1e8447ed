import ArgumentParser
import Foundation

struct ConstantsOption: ParsableArguments {
  @Option(help: ArgumentHelp("The file of constants.", valueName: "file"))
  var constants = "Tools/RelayModel/constants.json"

  func read() throws -> Constants { try Constants(file: constants) }
}

/// The options of a load. Names that docs/scale.md explains.
struct LoadOptions: ParsableArguments {
  @Option(help: "Accounts.")
  var accounts = Load().accounts
  @Option(help: "Messages that an account sends in a day.")
  var messagesPerDay = Load().messagesPerDay
  @Option(help: "Accounts with a connected device in the busiest hour, 0 to 1.")
  var onlineShare = Load().onlineShare
  @Option(help: "Devices of an account.")
  var devices = Load().devices
  @Option(help: "Contacts of an address book.")
  var contacts = Load().contacts
  @Option(help: "Look-ups of the whole address book by an account in a day.")
  var lookUpsPerDay = Load().lookUpsPerDay
  @Option(help: "Prekeys that an account draws in a day.")
  var drawsPerDay = Load().drawsPerDay
  @Option(help: "Connections that a connected device opens in an hour.")
  var connectsPerHour = Load().connectsPerHour
  @Option(help: "Peers.")
  var peers = Load().peers
  @Option(help: "Accounts of all peers together. By default, with peers, as many as ours.")
  var peerAccounts: Double?
  @Option(help: "Messages that go to peers, 0 to 1; as many come.")
  var crossingShare = Load().crossingShare
  @Option(help: "The busiest hour, in average ones.")
  var peak = Load().peak
  @Option(help: "Hours that a message waits for a device without connection.")
  var waitingHours = Load().waitingHours
  @Option(help: "Messages with an attachment, 0 to 1.")
  var attachmentShare = Load().attachmentShare
  @Option(help: "Kilobytes of an attachment.")
  var attachmentKilobytes = Load().attachmentKilobytes
  @Option(help: "Days that an attachment is kept.")
  var attachmentDays = Load().attachmentDays

  var load: Load {
    Load(
      accounts: accounts, messagesPerDay: messagesPerDay, onlineShare: onlineShare, devices: devices,
      contacts: contacts, lookUpsPerDay: lookUpsPerDay, drawsPerDay: drawsPerDay, connectsPerHour: connectsPerHour,
      peers: peers, crossingShare: crossingShare, peerAccounts: peerAccounts ?? (peers > 0 ? accounts : 0), peak: peak,
      waitingHours: waitingHours, attachmentShare: attachmentShare, attachmentKilobytes: attachmentKilobytes,
      attachmentDays: attachmentDays)
  }
}

struct HardwareOptions: ParsableArguments {
  @Option(help: "Cores of a relay process.")
  var coresPerProcess = Hardware().coresPerProcess
  @Option(help: ArgumentHelp("Memory of a relay process.", valueName: "GiB"))
  var memoryPerProcess = Hardware().memoryPerProcessGiB
  @Option(help: "Connections of a relay process: client.connections-max.")
  var connectionsPerProcess = Hardware().connectionsPerProcess
  @Option(help: "How busy cores and disks may be in the busiest hour, 0 to 1.")
  var utilization = Hardware().utilization
  @Option(help: "Cores of the largest PostgreSQL server.")
  var postgresCores = Hardware().postgresCores
  @Option(help: "Megabytes that the disk of the WAL takes in a second.")
  var walMegabytes = Hardware().walMegabytesPerSecond
  @Option(help: "Sessions that PostgreSQL lets in: max_connections.")
  var postgresConnections = Hardware().postgresConnections
  @Flag(help: "A proxy in front of the relay speaks TLS with clients.")
  var plain = false
  @Option(help: "Relay processes beyond those that the load needs.")
  var spareProcesses = Hardware().spareProcesses
  @Option(help: "Servers of PostgreSQL and of Redis: 2 is a primary and a standby.")
  var storeCopies = Hardware().storeCopies
  @Option(help: "Price of a core for an hour, in your currency. The default is an example.")
  var coreHourPrice = Hardware().coreHourPrice

  var hardware: Hardware {
    var hardware = Hardware()
    hardware.coresPerProcess = coresPerProcess
    hardware.memoryPerProcessGiB = memoryPerProcess
    hardware.connectionsPerProcess = connectionsPerProcess
    hardware.utilization = utilization
    hardware.postgresCores = postgresCores
    hardware.walMegabytesPerSecond = walMegabytes
    hardware.postgresConnections = postgresConnections
    hardware.isTLS = !plain
    hardware.spareProcesses = spareProcesses
    hardware.storeCopies = storeCopies
    hardware.coreHourPrice = coreHourPrice
    return hardware
  }
}

/// Prints `value` for programs.
func printJSON(_ value: some Encodable) throws {
  let encoder = JSONEncoder()
  encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
  print(String(decoding: try encoder.encode(value), as: UTF8.self))
}
