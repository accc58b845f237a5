"""`kubesched extender` as a process: verbs, pages, certificates, rights and shutdown."""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from kubesched.cluster.launch.certificates import write_certificates
from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.server import ADMIN
from kubesched.testing import PLAIN, Api, ApiServer, a_node, a_pod
from tests.integration.extender_process import DECLARING, PLUGIN, ExtenderProcess, start_extender
from tests.integration.ops_world import ClientCertificate, signed
from tests.unit.cli.running import kubesched

PODS = "/api/v1/namespaces/default/pods"
NODES = {
    "good": {"score": "40"},
    "better": {"score": "70"},
    "out": {"keep-out": "yes", "score": "100"},
}
_TIME = re.compile(r' took="[0-9.]+ms"$')


@pytest.fixture(scope="module")
def extender(
    api_server: ApiServer, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ExtenderProcess]:
    """Run an extender that binds, on three nodes."""
    for name, labels in NODES.items():
        api.post("/api/v1/nodes", a_node(name, labels=labels)).must(201)
    with ProcessGroup(tmp_path_factory.mktemp("extender")) as group:
        started = start_extender(api_server, group, "--bind")
        started.until_ready()
        yield started


@pytest.fixture
def pod(api: Api) -> Iterator[dict[str, Any]]:
    """Create a pending pod."""
    created = api.post(PODS, a_pod("new", labels={"app": "web"})).must(201).json
    yield created
    api.delete(f"{PODS}/new", {"gracePeriodSeconds": 0}).must(200)


def whole(api: Api, *names: str) -> dict[str, Any]:
    items = [api.get(f"/api/v1/nodes/{name}").must(200).json for name in names]
    return {"metadata": {}, "items": items}


def last(extender: ExtenderProcess, message: str, part: str) -> str:
    """Return the last line with a message and a text, without its duration."""
    extender.until(
        lambda: any(part in line for line in extender.lines(message)), f"{message}: {part}"
    )
    found = [line for line in extender.lines(message) if part in line]
    return _TIME.sub("", found[-1])


def test_a_call_with_names(extender: ExtenderProcess, pod: dict[str, Any]) -> None:
    answer = extender.call("filter", Pod=pod, NodeNames=["out", "good", "better"], Nodes=None)
    assert answer == {
        "Nodes": None,
        "NodeNames": ["good", "better"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"out": "keep out"},
        "Error": "",
    }
    line = last(extender, "Extender call", 'verb="filter"')
    assert line == 'verb="filter" pod="default/new" nodes=3 kept=2'


def test_a_call_with_whole_nodes(extender: ExtenderProcess, api: Api, pod: dict[str, Any]) -> None:
    nodes = whole(api, "better", "out")
    answer = extender.call("filter", Pod=pod, NodeNames=None, Nodes=nodes)
    assert answer["NodeNames"] is None
    assert answer["Nodes"]["items"] == nodes["items"][:1]
    assert answer["FailedAndUnresolvableNodes"] == {"out": "keep out"}


@pytest.mark.parametrize("path", ["prioritize", "priority", "some/prefix/prioritize", "priority/"])
def test_scores_under_both_names_and_under_any_path(
    path: str, extender: ExtenderProcess, pod: dict[str, Any]
) -> None:
    answer = extender.call(path, Pod=pod, NodeNames=["better", "good"], Nodes=None)
    assert answer == [{"Host": "better", "Score": 7}, {"Host": "good", "Score": 4}]
    line = last(extender, "Extender call", 'verb="prioritize"')
    assert line == 'verb="prioritize" pod="default/new" nodes=2 best="better"'


def test_keys_are_read_as_go_reads_them(extender: ExtenderProcess, pod: dict[str, Any]) -> None:
    body = json.dumps({"pOD": pod, "nodenames": ["good"], "Later": 1}).encode() + b" trailing"
    answer = extender.send("POST", "/filter", body).must(200)
    assert json.loads(answer.body)["NodeNames"] == ["good"]


def test_bound_pods_count_and_pending_pods_do_not(
    extender: ExtenderProcess, api: Api, pod: dict[str, Any]
) -> None:
    names = {"NodeNames": ["good", "better"], "Nodes": None}
    assert extender.call("filter", Pod=pod, **names)["NodeNames"] == ["good", "better"]
    api.post(PODS, a_pod("old", labels={"app": "web"}, node="good")).must(201)
    extender.until(
        lambda: extender.call("filter", Pod=pod, **names)["NodeNames"] == ["better"],
        "the bound pod is seen",
    )
    failed = extender.call("filter", Pod=pod, **names)["FailedNodes"]
    assert failed == {"good": "the app is here already"}
    # Whole nodes come without their pods.
    answer = extender.call("filter", Pod=pod, Nodes=whole(api, "good", "better"), NodeNames=None)
    assert answer["FailedNodes"] == failed
    # The node fits without that pod.
    uid = api.get(f"{PODS}/old").json["metadata"]["uid"]
    victims = {"good": {"Pods": [{"UID": uid}], "NumPDBViolations": 0}}
    answer = extender.call("preempt", Pod=pod, NodeNameToMetaVictims=victims)
    assert answer == {"NodeNameToMetaVictims": victims}
    api.delete(f"{PODS}/old", {"gracePeriodSeconds": 0}).must(200)
    extender.until(
        lambda: len(extender.call("filter", Pod=pod, **names)["NodeNames"]) == 2, "it is gone"
    )


def test_a_plugin_failure_is_reported_within_the_protocol(
    extender: ExtenderProcess, api: Api, pod: dict[str, Any]
) -> None:
    nodes = whole(api, "good")
    nodes["items"][0]["metadata"] |= {"labels": {"raise": "", "score": "x"}, "resourceVersion": ""}
    body = {"Pod": pod, "Nodes": nodes, "NodeNames": None}
    message = 'running "Labelled" filter plugin: RuntimeError: no such luck'
    assert extender.call("filter", **body)["Error"] == message
    answer = extender.send("POST", "/prioritize", json.dumps(body).encode())
    assert answer.code == 500
    assert "invalid literal for int()" in answer.text
    assert 'verb="prioritize"' in last(extender, "Extender call failed", "invalid literal")


@pytest.mark.parametrize(
    ("verb", "code", "body"),
    [
        ("filter", 200, "Error"),
        ("bind", 200, "Error"),
        ("prioritize", 200, "[]"),
        ("priority", 200, "[]"),
        ("preempt", 400, ""),
    ],
)
@pytest.mark.parametrize("sent", [b"{nonsense", b"", b'{"Pod":', b"[]", b'{"PodName":7,"Pod":7}'])
def test_a_body_that_cannot_be_decoded(
    verb: str, code: int, body: str, sent: bytes, extender: ExtenderProcess
) -> None:
    answer = extender.send("POST", f"/{verb}", sent)
    assert answer.code == code
    if body == "Error":
        assert json.loads(answer.body)["Error"].startswith("the request cannot be decoded: ")
    elif body:
        assert answer.text == body
    last(extender, "Extender call failed", "the request cannot be decoded")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
@pytest.mark.parametrize("verb", ["filter", "priority", "bind", "preempt"])
def test_other_methods_than_post_are_rejected(
    method: str, verb: str, extender: ExtenderProcess
) -> None:
    answer = extender.send(method, f"/{verb}")
    assert answer.code == 405
    assert answer.headers["Allow"] == "POST"
    last(extender, "Extender call rejected", f'method="{method}"')


def test_an_unknown_verb(extender: ExtenderProcess) -> None:
    answer = extender.send("POST", "/scheduler/predicates", b"{}")
    assert answer.code == 404
    line = last(extender, "Extender call rejected", "predicates")
    assert "there is no such verb" in line
    assert "filter, prioritize, priority, preempt, bind" in line
    assert 'URI="/scheduler/predicates"' in line


def test_bind_writes_the_binding(extender: ExtenderProcess, api: Api, pod: dict[str, Any]) -> None:
    uid = pod["metadata"]["uid"]
    binding = {"PodName": "new", "PodNamespace": "default", "PodUID": uid, "Node": "better"}
    wrong = extender.call("bind", **(binding | {"PodUID": "another"}))
    assert "pod default/new is not the pod that was scheduled" in wrong["Error"]
    assert "nodeName" not in api.get(f"{PODS}/new").json["spec"]
    assert extender.call("bind", **binding) == {"Error": ""}
    assert api.get(f"{PODS}/new").json["spec"]["nodeName"] == "better"
    # The pod counts immediately.
    answer = extender.call("filter", Pod=pod, NodeNames=["better"], Nodes=None)
    assert answer["FailedNodes"] == {"better": "the app is here already"}
    repeated = extender.call("bind", **binding)
    assert 'pod new is already assigned to node "better"' in repeated["Error"]
    line = last(extender, "Extender call", 'verb="bind"')
    assert line == 'verb="bind" pod="default/new" node="better"'


def test_pages(extender: ExtenderProcess, pod: dict[str, Any]) -> None:
    for page in ("/healthz", "/livez", "/readyz"):
        assert extender.send("GET", page).must(200).text == "ok"
    verbose = extender.send("GET", "/readyz?verbose").text
    assert "[+]informer-sync ok" in verbose
    calls = 'kubesched_extender_calls_total{result="ok",verb="filter"}'
    kept = 'kubesched_extender_nodes_total{verb="filter",verdict="kept"}'
    rejected = 'kubesched_extender_nodes_total{verb="filter",verdict="rejected"}'
    before = [extender.metric(one) for one in (calls, kept, rejected)]
    extender.call("filter", Pod=pod, NodeNames=["out", "good", "better"], Nodes=None)
    after = [extender.metric(one) for one in (calls, kept, rejected)]
    assert [new - old for new, old in zip(after, before, strict=True)] == [1, 2, 1]
    known = 'kubesched_extender_known_objects{kind="nodes"}'
    extender.until(lambda: extender.metric(known) == 3, "all nodes are counted")


def test_changes_of_a_node_are_seen(
    extender: ExtenderProcess, api: Api, pod: dict[str, Any]
) -> None:
    def answer() -> Any:
        return extender.call("filter", Pod=pod, NodeNames=["fresh"], Nodes=None)

    assert answer()["FailedNodes"] == {"fresh": "the extender does not know the node yet"}
    api.post("/api/v1/nodes", a_node("fresh")).must(201)
    extender.until(lambda: answer()["NodeNames"] == ["fresh"], "it is known")
    label = {"metadata": {"labels": {"keep-out": "yes"}}}
    api.patch("/api/v1/nodes/fresh", label, MERGE_PATCH).must(200)
    extender.until(
        lambda: answer()["FailedAndUnresolvableNodes"] == {"fresh": "keep out"}, "its label is seen"
    )
    api.delete("/api/v1/nodes/fresh").must(200)
    extender.until(lambda: "fresh" in answer()["FailedNodes"], "it is gone")


# -- other processes ------------------------------------------------------------------------------


def test_not_ready_without_a_cluster(
    api_server: ApiServer, tmp_path: Path, pod: dict[str, Any]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    text = api_server.kubeconfigs[ADMIN.name].read_text()
    kubeconfig.write_text(re.sub(r"https://127.0.0.1:\d+", "https://127.0.0.1:1", text))
    with ProcessGroup(tmp_path) as group:
        extender = start_extender(api_server, group, kubeconfig=kubeconfig)
        extender.until(lambda: "Serving on" in extender.log, "it serves")
        assert extender.send("GET", "/livez").code == 200
        assert extender.send("GET", "/readyz").code == 500
        check = extender.send("GET", "/readyz/informer-sync")
        assert "not synced yet: namespaces, nodes, pods" in check.text
        answer = extender.call("filter", Pod=pod, NodeNames=["good"], Nodes=None)
        assert answer["Error"] == "the extender has not read all namespaces, nodes, pods yet"
        body = json.dumps({"Pod": pod, "NodeNames": ["good"]}).encode()
        assert extender.send("POST", "/prioritize", body).code == 500
        assert extender.terminate() == 0


def test_pods_are_watched_once_a_plugin_reads_them(
    extender: ExtenderProcess, api_server: ApiServer, api: Api, tmp_path: Path
) -> None:
    known = 'kubesched_extender_known_objects{kind="pods"}'
    names = {"NodeNames": ["good", "better"], "Nodes": None}
    plain, app = a_pod("plain"), a_pod("app", labels={"app": "web"})
    api.post(PODS, a_pod("old", labels={"app": "web"}, node="good")).must(201)
    try:
        with ProcessGroup(tmp_path) as group:
            declaring = start_extender(api_server, group, plugin=DECLARING)
            declaring.until(lambda: "Nodes synced" in declaring.log, "nodes are known")
            assert declaring.call("filter", Pod=plain, **names)["NodeNames"] == ["good", "better"]
            assert declaring.metric(known) == 0
            # The first call for such a pod waits for the list of pods.
            scores = declaring.call("prioritize", Pod=app, **names)
            assert scores == [{"Host": "good", "Score": 4}, {"Host": "better", "Score": 7}]
            answer = declaring.call("filter", Pod=app, **names)
            assert answer["FailedNodes"] == {"good": "the app is here already"}
            assert declaring.log.count("Started watching pods: required by a plugin") == 1
            declaring.until(lambda: declaring.metric(known) == 1, "the bound pod is counted")
            api.post(PODS, a_pod("older", labels={"app": "web"}, node="better")).must(201)
            declaring.until(
                lambda: not declaring.call("filter", Pod=app, **names)["NodeNames"], "it is seen"
            )
    finally:
        for name in ("old", "older"):
            api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})


def test_a_call_fails_if_pods_are_forbidden(
    extender: ExtenderProcess, api_server: ApiServer, api: Api, tmp_path: Path
) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [""], "resources": ["nodes", "namespaces"], "verbs": ["list", "watch"]}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PLAIN.name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "no-pods"}
    metadata = {"metadata": {"name": "no-pods"}}
    api.post(f"{rbac}/clusterroles", {**metadata, "rules": [rule]}).must(201)
    bound = {**metadata, "subjects": [user], "roleRef": role}
    api.post(f"{rbac}/clusterrolebindings", bound).must(201)
    names = {"NodeNames": ["good"], "Nodes": None}
    try:
        with ProcessGroup(tmp_path) as group:
            kubeconfig = api_server.kubeconfigs[PLAIN.name]
            blind = start_extender(api_server, group, plugin=DECLARING, kubeconfig=kubeconfig)
            blind.until_ready()
            assert blind.call("filter", Pod=a_pod("plain"), **names)["NodeNames"] == ["good"]
            app = a_pod("app", labels={"app": "web"})
            error = blind.call("filter", Pod=app, **names)["Error"]
            assert error == "the extender has not read all pods yet"
            assert "pods cannot be watched" in last(blind, "Pods cannot be read", "forbidden")
            # Other pods are still served.
            assert blind.call("filter", Pod=a_pod("plain"), **names)["NodeNames"] == ["good"]
    finally:
        api.delete(f"{rbac}/clusterroles/no-pods")
        api.delete(f"{rbac}/clusterrolebindings/no-pods")


def test_bind_is_off_by_default(
    extender: ExtenderProcess, api_server: ApiServer, tmp_path: Path
) -> None:
    with ProcessGroup(tmp_path) as group:
        off = start_extender(api_server, group)
        off.until_ready()
        answer = off.call("bind", PodName="p", PodNamespace="default", PodUID="u", Node="good")
        assert answer == {"Error": "bind is off: start the extender with --bind"}
        # The log names the extension points that are not used.
        line = last(off, "Extension points are not used by an extender", "Labelled")
        assert line == 'plugin="Labelled" extensionPoints=["preBind"]'


def test_a_slow_plugin_fails_only_its_own_call(
    extender: ExtenderProcess, api_server: ApiServer, tmp_path: Path
) -> None:
    def error(takes: str) -> str:
        pod = a_pod("p", annotations={"takes": takes} if takes else {})
        answer = limited.call("filter", Pod=pod, NodeNames=["good"], Nodes=None)
        return str(answer["Error"])

    with ProcessGroup(tmp_path) as group:
        limited = start_extender(api_server, group, "--plugin-budget=100ms")
        limited.until_ready()
        for takes, message in (("0.3", "its time budget is 100ms"), ("60", "was interrupted")):
            assert 'running "Labelled" filter plugin' in error(takes)
            assert message in error(takes), error(takes)
            assert error("") == ""
        faults = (
            'kubesched_plugin_faults_total{extension_point="Filter",fault="%s",plugin="Labelled"'
        )
        page = limited.send("GET", "/metrics").text
        assert faults % "over_budget" in page
        assert faults % "interrupted" in page


def test_active_calls_are_answered_before_the_process_ends(
    extender: ExtenderProcess, api_server: ApiServer, api: Api, tmp_path: Path
) -> None:
    """A binding that is waiting at SIGTERM is written and answered; a new call is rejected."""
    slow = a_pod("slow", annotations={"wait-for": "go-on"})
    uid = api.post(PODS, slow).must(201).json["metadata"]["uid"]
    answers: list[Any] = []
    with ProcessGroup(tmp_path) as group:
        ending = start_extender(api_server, group, "--bind", "--plugin-budget=0")
        ending.until_ready()
        binding = {"PodName": "slow", "PodNamespace": "default", "PodUID": uid, "Node": "good"}
        caller = threading.Thread(target=lambda: answers.append(ending.call("bind", **binding)))
        caller.start()
        ending.until(lambda: bool(ending.lines("Waiting")), "it waits")
        ending.process.terminate()
        ending.until(lambda: "Stopped listening on" in ending.log, "it listens no more")
        with pytest.raises(ConnectionRefusedError):
            ending.send("GET", "/healthz")
        config_maps = "/api/v1/namespaces/default/configmaps"
        api.post(config_maps, {"metadata": {"name": "go-on"}}).must(201)
        caller.join(30)
        assert answers == [{"Error": ""}]
        assert ending.process.wait(30) == 0
    assert api.get(f"{PODS}/slow").json["spec"]["nodeName"] == "good"
    for path in (f"{PODS}/slow", f"{config_maps}/go-on"):
        api.delete(path, {"gracePeriodSeconds": 0}).must(200)


def caller_context(authority: Path, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts an authority."""
    context = ssl.create_default_context(cafile=str(authority))
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context


def test_certificates(extender: ExtenderProcess, api_server: ApiServer, tmp_path: Path) -> None:
    """HTTPS with files; with --client-ca-file, clients need a certificate."""
    pair = write_certificates(tmp_path)
    files = (f"--tls-cert-file={pair.serving}", f"--tls-private-key-file={pair.serving_key}")
    issuer = load_pem_x509_certificate(pair.authority.read_bytes()).subject
    key = load_pem_private_key(pair.authority_key.read_bytes(), None)
    certificate = signed(tmp_path, "scheduler", [], issuer, key)
    unknown = caller_context(pair.authority)
    body = {"Pod": a_pod("p"), "NodeNames": ["good"], "Nodes": None}
    with ProcessGroup(tmp_path) as group:
        for_all = start_extender(api_server, group, *files, tls=unknown)
        for_all.until_ready()
        assert for_all.call("filter", **body)["NodeNames"] == ["good"]

        trusted = caller_context(pair.authority, certificate)
        closed = start_extender(
            api_server, group, *files, f"--client-ca-file={pair.authority}", tls=trusted
        )
        closed.until_ready()
        assert closed.call("filter", **body)["NodeNames"] == ["good"]
        assert closed.send("GET", "/metrics").code == 200
        anonymous = replace(closed, tls=unknown)
        rejected = [anonymous.send("POST", "/filter", b"{}"), anonymous.send("GET", "/metrics")]
        assert [one.code for one in rejected] == [401, 401]
        assert anonymous.send("GET", "/readyz").code == 200


@pytest.mark.parametrize("binds", [True, False])
def test_the_printed_rights_are_enough(
    binds: bool, extender: ExtenderProcess, api_server: ApiServer, api: Api, tmp_path: Path
) -> None:
    flags = ["--bind"] if binds else []
    printed = kubesched("extender", "--plugin", PLUGIN, "--print-config", *flags).out
    _, *documents = yaml.safe_load_all(printed)
    granted = [document for document in documents if document["kind"] != "ServiceAccount"]
    granted[-1]["subjects"] = [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PLAIN.name}
    ]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    paths = [f"{rbac}/{one['kind'].lower()}s" for one in granted]
    for path, document in zip(paths, granted, strict=True):
        api.post(path, document).must(201)
    uid = api.post(PODS, a_pod("mine")).must(201).json["metadata"]["uid"]
    binding = {"PodName": "mine", "PodNamespace": "default", "PodUID": uid, "Node": "good"}
    try:
        with ProcessGroup(tmp_path) as group:
            kubeconfig = api_server.kubeconfigs[PLAIN.name]
            restricted = start_extender(api_server, group, "--bind", kubeconfig=kubeconfig)
            restricted.until_ready()
            error = restricted.call("bind", **binding)["Error"]
            assert ("pods/binding" in error) is not binds, error
            assert bool(error) is not binds
            assert restricted.terminate() == 0
            assert ("orbidden" in restricted.log) is not binds
    finally:
        api.delete(f"{PODS}/mine", {"gracePeriodSeconds": 0}).must(200)
        for path, document in zip(paths, granted, strict=True):
            api.delete(f"{path}/{document['metadata']['name']}").must(200)
