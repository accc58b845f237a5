"""One scheduling attempt as plain functions over a snapshot and a profile."""
