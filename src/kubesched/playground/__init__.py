"""A small living cluster: API server, nodes, pods that run, controllers and the scheduler.

Owns what is put together and in which order it starts and ends: in threads of this process for
tests (`in_process`), as processes for the command (`processes`). What each part does is its own.
"""
