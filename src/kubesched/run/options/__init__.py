"""The command line of `kubesched run`: flags, their values and their validation."""
