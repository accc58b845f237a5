"""Runs the plugins of a profile, extension point by extension point."""
