import RelayCore

/// A column that is moved: how it is read in both stores, and written.
struct MovedColumn: Sendable {
  enum Kind: Sendable { case integer, text, bytes }

  /// The form of a column in the target that differs by more than its type.
  struct Form: Sendable {
    let kind: Kind
    /// SQL of the target, whose value is the source's.
    let read: String
    /// Columns of the target, and SQL of what they get out of the source's value, which stands there as `:v`.
    let written: [(column: String, value: String)]
  }

  let name: String
  let form: Form
  /// How a key is compared: SQL of the target's side, and of the other side out of the SQL of the source's value.
  let compared: (column: String, value: @Sendable (String) -> String)

  var kind: Kind { form.kind }
  /// The type of parameters that carry its values.
  var parameterType: String {
    switch kind {
    case .integer: "bigint"
    case .text: "text"
    case .bytes: "bytea"
    }
  }

  /// - Parameter type: as `information_schema` names it.
  /// - Returns: nil for a type that needs a form of its own.
  init?(_ name: String, type: String) {
    self.name = name
    let quoted = "\"\(name)\""
    switch type {
    case "bigint", "integer", "smallint":
      form = Form(kind: .integer, read: "\(quoted)::bigint", written: [(name, ":v")])
      compared = (quoted, { $0 })
    case "boolean":
      form = Form(kind: .integer, read: "\(quoted)::integer::bigint", written: [(name, "(:v <> 0)")])
      compared = ("\(quoted)::integer", { $0 })
    case "date":
      form = Form(
        kind: .integer, read: "(\(quoted) - date '1970-01-01')::bigint",
        written: [(name, "(date '1970-01-01' + :v::integer)")])
      compared = ("(\(quoted) - date '1970-01-01')", { $0 })
    case "text":
      form = Form(kind: .text, read: quoted, written: [(name, ":v")])
      compared = ("\(quoted) COLLATE \"C\"", { $0 })
    case "bytea":
      form = Form(kind: .bytes, read: quoted, written: [(name, ":v")])
      compared = (quoted, { $0 })
    case "uuid":
      form = Form(kind: .bytes, read: "uuid_send(\(quoted))", written: [(name, "encode(:v, 'hex')::uuid")])
      compared = (quoted, { "encode(\($0), 'hex')::uuid" })
    default: return nil
    }
  }

  init(_ name: String, _ form: Form) {
    self.name = name
    self.form = form
    compared = (form.read, { $0 })
  }
}

extension MovedColumn.Form {
  /// Serials of `peers`: lower-case hex, with a space between them, where PostgreSQL has an array.
  static let serials = MovedColumn.Form(
    kind: .text,
    read: """
      coalesce((SELECT string_agg(encode(s, 'hex'), ' ' ORDER BY o)
        FROM unnest(revoked_serials) WITH ORDINALITY AS r (s, o)), '')
      """,
    written: [
      (
        "revoked_serials",
        """
        ARRAY(SELECT decode(w, 'hex') FROM unnest(string_to_array(:v, ' ')) WITH ORDINALITY AS r (w, o) ORDER BY o)
        """
      )
    ])

  /// `DEVICE:REGISTRATION-ID`, with a space between them, where PostgreSQL has two arrays.
  static let confirmedDevices = MovedColumn.Form(
    kind: .text,
    read: """
      coalesce((SELECT string_agg(d || ':' || i, ' ' ORDER BY o)
        FROM unnest(devices, registration_ids) WITH ORDINALITY AS r (d, i, o)), '')
      """,
    written: [("devices", half(1, "integer")), ("registration_ids", half(2, "bigint"))])

  private static func half(_ part: Int, _ type: String) -> String {
    """
    ARRAY(SELECT split_part(w, ':', \(part))::\(type)
      FROM unnest(string_to_array(:v, ' ')) WITH ORDINALITY AS r (w, o) ORDER BY o)
    """
  }

  /// The target has no such column, which is always 1.
  static let absent = MovedColumn.Form(kind: .integer, read: "1::bigint", written: [])

  /// With what the quota is charged for it.
  static let charged = MovedColumn.Form(
    kind: .integer, read: "bytes",
    written: [("bytes", ":v"), ("charge", "greatest(coalesce(:v, 0), \(AttachmentQuota.chargeMin))")])

  /// The halves of the ledger's 64 bits, in one slot.
  static let digest = MovedColumn.Form(
    kind: .integer, read: "(high << 32) | low",
    written: [("slot", "0"), ("low", ":v & 4294967295"), ("high", "(:v >> 32) & 4294967295")])
}
