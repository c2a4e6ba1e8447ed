/// The answers about an account's devices (reference 1.14).
package enum DevicesCodec {
  /// `{"devices": [{"id", "name", "lastSeen", "created"}]}`, in the order given; the time of `lastSeen` is its UTC
  /// day's beginning.
  package static func encode(_ devices: [Device]) -> [UInt8] {
    var writer = JSONWriter(capacity: 32 + 128 * devices.count)
    writer.beginObject()
    writer.key("devices")
    writer.beginArray()
    for device in devices {
      writer.beginObject()
      writer.key("id")
      writer.integer(device.id.value)
      writer.key("name")
      writer.string(device.name)
      writer.key("lastSeen")
      writer.integer(device.lastSeen.startOfDay.millis)
      writer.key("created")
      writer.integer(device.created.millis)
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  /// `{"verificationCode": "123456"}`.
  package static func encode(code: Secret) -> [UInt8] {
    var writer = JSONWriter(capacity: 32)
    writer.beginObject()
    writer.key("verificationCode")
    writer.string(code.value)
    writer.endObject()
    return writer.bytes
  }

  /// `{"deviceId": 2}`.
  package static func encode(linked device: DeviceID) -> [UInt8] {
    var writer = JSONWriter(capacity: 24)
    writer.beginObject()
    writer.key("deviceId")
    writer.integer(device.value)
    writer.endObject()
    return writer.bytes
  }
}
