"""Plugins to copy: each file is self-contained, see docs/plugins.md."""
