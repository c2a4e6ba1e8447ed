// Owned by RelayCoreTests.
