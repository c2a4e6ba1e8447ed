import TestTags
import Testing

@testable import Directory

/// Parts of stores that were put back.
@Suite(.tags(.unit)) struct PartGenerationsTests {
  @Test func `parts of an older generation are taken for a while, and then no more`() {
    let patient = PartGenerations(patience: .seconds(600))
    for generation in [3, 5, 3, 5] as [Int64] { #expect(patient.accepts(generation)) }
    let impatient = PartGenerations(patience: .zero)
    #expect(impatient.accepts(3))
    #expect(impatient.accepts(5))
    #expect(!impatient.accepts(3))
    #expect(impatient.accepts(5))
    #expect(impatient.accepts(6))
    #expect(!impatient.accepts(5))
  }
}
