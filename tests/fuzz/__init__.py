"""Mutated files of every kind that the library reads: each works, or gives one clear error.

``python -m tests.fuzz`` runs the campaigns; see `tests.fuzz.harness` for how a kind is written.
"""
