"""Verbs: create, get, list, watch, update, patch and delete, for all kinds."""
