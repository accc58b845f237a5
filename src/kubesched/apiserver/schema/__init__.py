"""What the fields of every kind are: names, types, how they are merged."""
