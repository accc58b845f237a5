"""Making room by evicting less important pods; for any post-filter plugin to use."""
