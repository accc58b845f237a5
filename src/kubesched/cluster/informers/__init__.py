"""In-memory copy of a cluster for programs that change it: controllers and kubelets.

Owns informers, a client whose writes the informers see at once, and work queues. Objects are plain
JSON dicts, and only the informer changes them. Knows nothing about particular kinds.
"""
