"""Deletion of finished Jobs."""
