"""Benchmarks: workloads as data, run in memory through the framework users use."""
