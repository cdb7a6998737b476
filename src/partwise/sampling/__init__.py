"""Estimates by drawing."""
