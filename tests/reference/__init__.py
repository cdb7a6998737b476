"""Slow, obvious versions of the models, written from the derivations and not from the library."""
