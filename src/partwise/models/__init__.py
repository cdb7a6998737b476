"""The mathematics, one file a model: pure functions on blocks and parameter tuples."""
