"""What is particular to a kind: its defaults, its rules, what it keeps on update."""
