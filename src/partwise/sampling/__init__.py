"""Randomness, and estimates by drawing."""
