"""Random writes, for conformance/fuzz_patches.py."""
