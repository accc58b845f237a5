"""Garbage collection of pods."""
