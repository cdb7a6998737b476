"""Recorded results of fits and stored model files; README.md says when to record anew."""
