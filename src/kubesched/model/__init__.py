"""The scheduler's own values: immutable, shared by everything above."""
