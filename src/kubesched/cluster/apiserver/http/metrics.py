"""Metrics of the server, under upstream's names.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go,
staging/src/k8s.io/apiserver/pkg/storage/etcd3/metrics/metrics.go
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.cluster.apiserver.http.request_info import RequestInfo
from kubesched.cluster.apiserver.verbs.context import Context


class Metrics:
    """Counters of one server."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._requests: dict[tuple[str, str, str, str, str, int], int] = {}
        self.watcher_count = 0

    def count(self, info: RequestInfo, code: int) -> None:
        """Count a request after its response, or a watch after its end."""
        key = (info.group, info.version, info.resource, info.subresource, info.verb, code)
        self._requests[key] = self._requests.get(key, 0) + 1

    def text(self) -> str:
        """Return all metrics in the Prometheus text format."""
        return "\n".join([*self._request_lines(), *self._object_lines(), *self._watch_lines(), ""])

    def _request_lines(self) -> Iterator[str]:
        yield "# HELP apiserver_request_total [STABLE] Requests answered."
        yield "# TYPE apiserver_request_total counter"
        for (group, version, resource, below, verb, code), count in sorted(self._requests.items()):
            labels = (
                f'code="{code}",group="{group}",resource="{resource}",'
                f'subresource="{below}",verb="{verb.upper()}",version="{version}"'
            )
            yield f"apiserver_request_total{{{labels}}} {count}"

    def _object_lines(self) -> Iterator[str]:
        yield "# HELP apiserver_resource_objects [ALPHA] Objects kept, by resource."
        yield "# TYPE apiserver_resource_objects gauge"
        for storage, bucket in sorted(self._context.store.buckets.items()):
            group, _, resource = storage.partition("/")
            labels = f'group="{group}",resource="{resource}"'
            yield f"apiserver_resource_objects{{{labels}}} {len(bucket.entries)}"

    def _watch_lines(self) -> Iterator[str]:
        yield "# HELP apiserver_longrunning_requests [STABLE] Watches that are open."
        yield "# TYPE apiserver_longrunning_requests gauge"
        yield f'apiserver_longrunning_requests{{verb="WATCH"}} {self.watcher_count}'
