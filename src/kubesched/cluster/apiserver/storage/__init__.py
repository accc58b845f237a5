"""The store of the embedded API server: objects, watch history and persistence."""
