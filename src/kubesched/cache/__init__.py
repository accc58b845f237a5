"""The only writer of columns."""
