"""Preemption: finds pods of lower priority to evict; for use by PostFilter plugins."""
