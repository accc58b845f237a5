"""Bodies that decoders reject: wrong types, wrong syntax, unknown and duplicate fields.

Owns the texts; record.py records a real server's responses.
"""

from __future__ import annotations

from collections.abc import Iterator

Case = tuple[list[str], str, str, str]
"""Kind (group, version, name), path, body, content type."""


def cases() -> Iterator[Case]:
    """Yield every case."""
    for kind, path, content_type, bodies in GROUPS:
        for body in bodies:
            yield kind, f"{path}?dryRun=All&fieldValidation=Strict", body, content_type


GROUPS: list[tuple[list[str], str, str, list[str]]] = [
    (
        ["", "v1", "Pod"],
        "/api/v1/namespaces/default/pods",
        "application/json",
        [
            '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"spec":"a"}',
            '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"spec":{"containers":["a"]}}',
            '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","labels":{"a":1}},"spec":{}}',
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","labels":[1]},"spec":{"contai'
                'ners":{}}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"restartPolicy":5,"c'
                'ontainers":[{"ports":[{"containerPort":"80"}]}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"port'
                's":[{"containerPort":99999999999}]}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"port'
                's":[{"containerPort":1.5}]}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"port'
                's":[{"containerPort":12345678901234567890123}]}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"reso'
                'urces":{"limits":{"cpu":"1x"}}}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"reso'
                'urces":{"limits":{"cpu":true}}}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"reso'
                'urces":{"limits":{"cpu":{}}}}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"reso'
                'urces":{"limits":{"cpu":""}}}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"reso'
                'urces":{"limits":5}}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"abc"},"s'
                'pec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":5},"spec"'
                ":{}}"
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-13-'
                '01T00:00:00Z"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-02-'
                '30T00:00:00Z"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-02-'
                '03"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-02-'
                '03T01:01:01"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-02-'
                '03T01:01:01+25:00"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-02-'
                '03T25:01:01Z"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-02-'
                '03T21:61:01Z"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-02-'
                '03T21:01:61Z"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-02-'
                '03T21:01:01Zfoo"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"20200203'
                '"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":""},"spec'
                '":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020/02/'
                '03T21:01:01Z"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"2020-02-'
                '03 21:01:01Z"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":true},"sp'
                'ec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":[]},"spec'
                '":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":{}},"spec'
                '":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","creationTimestamp":"202é-01-'
                '01T"},"spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"volumes":[{"name":"'
                'v","hostPath":"x"}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"volumes":[{"name":"'
                'v","hostPath":{"path":{}}}],"containers":['
                '{"livenessProbe":{"httpGet":{"port":true}}'
                "}]}}"
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"live'
                'nessProbe":{"httpGet":{"port":1.5}}}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"live'
                'nessProbe":{"httpGet":{"port":[]}}}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"nodeSelector":{"a":'
                "{}}}}"
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"hostNetwork":"yes",'
                '"activeDeadlineSeconds":"5"}}'
            ),
            '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"spec":{"hostNetwork":1}}',
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"tolerations":[{"tol'
                'erationSeconds":true}]}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","x":1},"spec":{"foo":1,"conta'
                'iners":[{"name":"a","bar":{"x":1}}],"Bar":2}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"containers":[{"name'
                '":"a","image":"b","image":"c"}],"restartPolicy":"Always","restartPolicy":"Never"}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x","labels":{"a":"b","a":"c"}},"'
                'spec":{}}'
            ),
            (
                '{"kind":"Pod","apiVersion":"v1","metadata"'
                ':{"name":"x"},"spec":{"nodeSelector":null,'
                '"foo":[{"x":1}],"affinity":{"nodeAffinity":{"x":1}},"overhead":{"a":"1","b":"z"}}}'
            ),
            '{"kind":5,"apiVersion":"v1"}',
            '{"kind":"Pod","apiVersion":["v1"]}',
            '{"kind":"Pod","apiVersion":"v1",',
            "",
            "[]",
            '"x"',
            "5",
            "true",
            '{"kind":"Foo","apiVersion":"v1"}',
            '{"kind":"Service","apiVersion":"v1"}',
            '{"kind":"Pod","apiVersion":"v2"}',
            '{"kind":"Pod","apiVersion":"a/b/c"}',
            '{"kind":"Deployment","apiVersion":"apps/v1"}',
            '{"kind":"Pod","apiVersion":"apps/v1"}',
            '{"kind":"Pod","apiVersion":"v1"} x',
            '{"a":1,}',
            '{"a" 1}',
            "{a:1}",
            "[1 2]",
            '{"a":tru}',
            '{"a":01}',
            '{"a":-}',
            '{"a":1.}',
            '{"a":1e}',
            '{"a":"\\x"}',
            '{"a":"\\u12g4"}',
            '{"a":"\n"}',
            "{'a':1}",
            '{"a":1',
            '{"a":"b',
            '{"a":nul',
            '{"a":NaN}',
            '{"metadata":{"name":1e400}}',
            "\x00",
            '{"kind":"Pod"}}',
            '{"kind":"\'"\'}',
            '{"a":é}',
        ],
    ),
    (
        ["", "v1", "Secret"],
        "/api/v1/namespaces/default/secrets",
        "application/json",
        [
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"a%b="}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"YQ="}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"YQ"}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"YQ=="}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":5}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"====","b":5}}',
            (
                '{"kind":"Secret","apiVersion":"v1","metada'
                'ta":{"name":"x"},"data":{"a":"Y===","b":tr'
                "ue}}"
            ),
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"YQ==YQ=="}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"YQ=a"}}',
            (
                '{"kind":"Secret","apiVersion":"v1","metada'
                'ta":{"name":"x"},"data":{"a":"YWI=","b":"Y'
                'W"}}'
            ),
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"Y\\nQ=x"}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"YQ==\\n"}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"YQ=\\n="}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"é"}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":[1,2]}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":[300]}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":["a"]}}',
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":{}}}',
            (
                '{"kind":"Secret","apiVersion":"v1","metada'
                'ta":{"name":"x"},"data":{"a":"YWJj","b":"Y'
                'WJjZ"}}'
            ),
            '{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"-_-_"}}',
        ],
    ),
    (
        ["coordination.k8s.io", "v1", "Lease"],
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "application/json",
        [
            '{"metadata":{"name":"x"},"spec":{"renewTime":"2020-01-01T00:00:00Z"}}',
            '{"metadata":{"name":"x"},"spec":{"renewTime":"2020-01-01T00:00:00.123456Z"}}',
            '{"metadata":{"name":"x"},"spec":{"renewTime":"2020-01-01T00:00:00.1234567Z"}}',
            '{"metadata":{"name":"x"},"spec":{"renewTime":"2020-01-01T00:00:00.123Z"}}',
            '{"metadata":{"name":"x"},"spec":{"renewTime":5}}',
        ],
    ),
    (
        ["", "v1", "Pod"],
        "/api/v1/namespaces/default/pods",
        "application/yaml",
        [
            "kind: Pod\napiVersion: v1\nmetadata:\n  name: x\n  name: y\n",
            "kind: Pod\napiVersion: v1\nmetadata:\n  name: x\n  labels: {a: 1}\n",
            (
                "kind: Pod\napiVersion: v1\nmetadata:\n  name:"
                " x\n  name: z\n  foo: z\nspec:\n  hostname: a\n"
                "  hostname: b\n  x: y\n"
            ),
            "kind: Pod\napiVersion: v1\nmetadata: [\n",
            "a: b: c",
            "kind: Pod\napiVersion: v1\nmetadata:\n\tname: x\n",
            'kind: Pod\napiVersion: v1\nmetadata:\n  name: "x\n',
            "kind: Pod\napiVersion: v1\n metadata: x\n",
            "kind: Pod\napiVersion: v1\nmetadata:\n  name: x\n   labels: x\n",
            "kind: Pod\napiVersion: v1\nspec: *x",
            "kind: Pod\napiVersion: v1\nspec:\n- a\nb: c\n  d",
            "- a",
            "5",
            "x",
            "kind: Pod\napiVersion: v1\nmetadata: {name: .nan}",
            "kind: Pod\napiVersion: v1\nmetadata: {name: 0o17}",
            "kind: Pod\napiVersion: v1\nmetadata: {name: on}",
        ],
    ),
    (
        ["apiextensions.k8s.io", "v1", "CustomResourceDefinition"],
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "application/json",
        [
            (
                '{"spec":{"versions":[{"schema":{"openAPIV3'
                'Schema":{"foo":1,"properties":{"a":{"foo":'
                '1,"items":{"foo":1}}}}}}]}}'
            ),
            (
                '{"spec":{"versions":[{"schema":{"openAPIV3'
                'Schema":{"properties":{"a":{"items":{"maxi'
                'mum":"a"}}}}}}]}}'
            ),
            (
                '{"spec":{"versions":[{"schema":{"openAPIV3'
                'Schema":{"properties":{"a":{"additionalPro'
                'perties":5}}}}}]}}'
            ),
            '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":5}}}}]}}',
            (
                '{"spec":{"versions":[{"schema":{"openAPIV3'
                'Schema":{"properties":{"a":{"items":{"addi'
                'tionalProperties":{"type":5}}}}}}}]}}'
            ),
        ],
    ),
]
