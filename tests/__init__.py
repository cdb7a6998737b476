"""Tests; a package, so that no installed package of the same name comes before it."""
