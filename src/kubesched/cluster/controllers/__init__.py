"""Controllers: the part of kube-controller-manager that a small cluster needs.

Each controller is a package with `controller.py` as its entry; `registry` lists them and `run`
starts them. They use REST only, so they work on any API server. They never schedule or run pods.
Upstream: pkg/controller
"""
