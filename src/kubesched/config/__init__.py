"""KubeSchedulerConfiguration kubescheduler.config.k8s.io/v1: read, defaulted, validated, written.

Owns everything between the text of a configuration file and the typed effective configuration.
Never builds a plugin, and opens no files but those of extender certificates.
Upstream: pkg/scheduler/apis/config
"""
