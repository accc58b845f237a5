"""One scheduling attempt as plain functions over a view and a profile."""
