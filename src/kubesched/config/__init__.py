"""KubeSchedulerConfiguration kubescheduler.config.k8s.io/v1: read, defaulted, validated, written.

Owns everything between the text of a configuration file and the typed effective configuration.
Never builds a plugin, never talks to anything but the files it is given.
Upstream: pkg/scheduler/apis/config
"""
