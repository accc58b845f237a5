"""A cluster held in memory by those who change it: controllers and kubelets.

Owns informers, writes that are seen at once, and queues of keys. Documents are plain dicts as JSON
has them, never to be changed by who reads them. Never knows what any kind of object means beyond
what is common to controllers.
"""
