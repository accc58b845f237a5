"""Eviction of pods by NoExecute taints."""
