"""Starts clusters for the playground and for tests, embedded or real."""
