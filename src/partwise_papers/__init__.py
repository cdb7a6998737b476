"""The papers' experiments, the benchmarks, and the pages of their results.

A package beside the library, on its public names. It provides ``partwise reproduce`` and
``partwise bench``.
"""
