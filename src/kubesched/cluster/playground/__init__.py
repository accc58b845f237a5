"""The playground: a small cluster of API server, simulated nodes, controllers and scheduler.

Owns which components run and their lifecycle: in threads for tests (`in_process`), or as processes
for the command `kubesched playground` (`control_planes`, `scheduler_process`, `local_components`).
"""
