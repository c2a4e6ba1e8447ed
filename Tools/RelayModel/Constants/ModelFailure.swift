/// Input that the model cannot work with, in words for the person who gave it.
struct ModelFailure: Error, CustomStringConvertible, Equatable {
  let description: String
  init(_ description: String) { self.description = description }
}
