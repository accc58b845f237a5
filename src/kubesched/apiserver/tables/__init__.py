"""The columns that `kubectl get` shows."""
