// Owned by Support.
