"""Plugins to copy from: each file stands alone, see docs/plugins.md."""
