"""The scheduler cache: assumes and forgets pods; the only writer of the snapshot."""
