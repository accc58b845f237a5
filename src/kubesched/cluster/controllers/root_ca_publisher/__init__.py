"""The ConfigMap kube-root-ca.crt of every namespace."""
