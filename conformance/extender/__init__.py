"""Scripted extenders, called by kube-scheduler and by kubesched."""
