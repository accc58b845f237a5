"""Patch types and managed fields."""
