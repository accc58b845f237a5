"""/healthz, /livez and /readyz.

Owns their texts. Never knows what a check looks at.
Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go
"""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.kit.go_text import go_quote
from kubesched.kit.log import Log
from kubesched.model.process_metrics import SliMetrics
from kubesched.web.answers import NO_SNIFF, Answer, Asked, Handler, error_answer, text_answer
from kubesched.web.mux import PathMux
from kubesched.web.parts import HealthCheck


def install_health(
    mux: PathMux,
    path: str,
    checks: Mapping[str, HealthCheck],
    *,
    metrics: SliMetrics,
    log: Log,
) -> None:
    """Serve a page of checks, and one page for each; `ping` if there is none."""
    checks = dict(checks) or {"ping": lambda: None}
    mux.handle(path, _root(path.removeprefix("/"), checks, metrics, log))
    for name, check in checks.items():
        mux.handle(f"{path}/{name}", _single(check))


def _root(page: str, checks: Mapping[str, HealthCheck], metrics: SliMetrics, log: Log) -> Handler:
    """Return the handler of all checks.

    Parity: healthz.go handleRootHealth, v1.36.
    """

    async def serve(asked: Asked) -> Answer:
        query = asked.query
        excluded = set(query.get("exclude", []))
        lines = []
        failed: dict[str, str] = {}
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok\n")
                continue
            error = check()
            metrics.observe(name, page, is_ok=error is None)
            lines.append(f"[+]{name} ok\n" if error is None else _withheld(name))
            if error is not None:
                failed[name] = error
        if unknown := sorted(excluded - checks.keys()):
            names = ",".join(map(go_quote, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if failed:
            reasons = "".join(f"[-]{name} failed: {error}\n" for name, error in failed.items())
            log.line(f"{','.join(failed)} check failed: {page}\n{reasons}", level=2)
            return error_answer(f"{''.join(lines)}{page} check failed", 500)
        text = "".join(lines) + f"{page} check passed\n" if "verbose" in query else "ok"
        return Answer(text.encode(), headers=dict(NO_SNIFF))

    return serve


def _withheld(name: str) -> str:
    # The page is public; who may know more asks for the check itself.
    return f"[-]{name} failed: reason withheld\n"


def _single(check: HealthCheck) -> Handler:
    async def serve(asked: Asked) -> Answer:
        del asked
        error = check()
        if error is not None:
            return error_answer(f"internal server error: {error}", 500)
        return text_answer("ok")

    return serve
