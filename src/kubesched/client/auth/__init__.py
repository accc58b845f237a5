"""Credentials: kubeconfig files, tokens, client certificates and exec plugins."""
