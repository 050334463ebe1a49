"""The ordinary work of a program that uses the official Python client. Ends with 0 and prints `done` when all of it works.

Arguments: the kubeconfig, and `node` when pods run."""

import sys

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import portforward, stream


def refused(code, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except ApiException as error:
        assert error.status == code, (error.status, error.body)
        return error
    raise AssertionError("it was not refused")


def config_maps(core):
    core.create_namespace({"metadata": {"name": "python"}})
    for number in range(7):
        body = {"metadata": {"name": f"m{number}", "labels": {"even": str(number % 2 == 0)}}, "data": {"n": str(number)}}
        core.create_namespaced_config_map("python", body)
    refused(409, core.create_namespaced_config_map, "python", {"metadata": {"name": "m0"}})
    refused(404, core.read_namespaced_config_map, "none", "python")
    refused(422, core.create_namespaced_config_map, "python", {"metadata": {"name": "Not_A_Name"}})

    even = core.list_namespaced_config_map("python", label_selector="even=True")
    assert [item.metadata.name for item in even.items] == ["m0", "m2", "m4", "m6"], even
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map("python", limit=3, _continue=token, field_selector="metadata.name!=kube-root-ca.crt")
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"m{number}" for number in range(7)], names

    first = core.read_namespaced_config_map("m1", "python")
    second = core.read_namespaced_config_map("m1", "python")
    first.data["n"] = "one"
    core.replace_namespaced_config_map("m1", "python", first)
    second.data["n"] = "lost"
    refused(409, core.replace_namespaced_config_map, "m1", "python", second)
    patched = core.patch_namespaced_config_map("m1", "python", {"data": {"more": "x", "n": None}})
    assert patched.data == {"more": "x"}, patched.data
    patched = core.patch_namespaced_config_map("m1", "python", [{"op": "add", "path": "/data/json", "value": "y"}])
    assert patched.data == {"more": "x", "json": "y"}, patched.data
    core.patch_namespaced_config_map("m1", "python", {"data": {"dry": "run"}}, dry_run="All")
    assert "dry" not in core.read_namespaced_config_map("m1", "python").data

    start = core.list_namespaced_config_map("python").metadata.resource_version
    core.delete_namespaced_config_map("m2", "python")
    core.create_namespaced_config_map("python", {"metadata": {"name": "late"}})
    seen = []
    for event in watch.Watch().stream(core.list_namespaced_config_map, "python", resource_version=start, timeout_seconds=30):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            break
    assert seen == [("DELETED", "m2"), ("ADDED", "late")], seen
    core.delete_collection_namespaced_config_map("python", label_selector="even=True")
    left = core.list_namespaced_config_map("python", label_selector="even")
    assert [item.metadata.name for item in left.items] == ["m1", "m3", "m5"], left


def kinds(api):
    documents = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "python"},
         "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                  "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "python"},
         "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader", "namespace": "python"},
         "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ]
    utils.create_from_yaml(api, yaml_objects=documents, namespace="python")
    apps = client.AppsV1Api(api)
    apps.patch_namespaced_deployment_scale("web", "python", {"spec": {"replicas": 5}})
    deployment = apps.read_namespaced_deployment("web", "python")
    assert deployment.spec.replicas == 5 and deployment.spec.strategy.type == "RollingUpdate", deployment
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "python"}}}
    answer = client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    assert answer.status.allowed, answer
    services = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="Service")
    assert services.get(name="web", namespace="python").spec.clusterIP
    assert client.VersionApi(api).get_code().minor == "36"


def pods(core):
    program = "import http.server; http.server.HTTPServer(('', 8080), http.server.SimpleHTTPRequestHandler).serve_forever()"
    core.create_namespaced_pod("python", {
        "metadata": {"name": "server"},
        "spec": {"containers": [{"name": "c", "image": "coracle.dev/host", "workingDir": "/etc",
                                 "command": ["/usr/bin/python3", "-c", program]}]},
    })
    for event in watch.Watch().stream(core.list_namespaced_pod, "python", field_selector="metadata.name=server", timeout_seconds=60):
        if any(each.type == "Ready" and each.status == "True" for each in event["object"].status.conditions or []):
            break
    said = stream(core.connect_get_namespaced_pod_exec, "server", "python", command=["/bin/sh", "-c", "echo out; echo err >&2"],
                  stderr=True, stdin=False, stdout=True, tty=False)
    assert sorted(said.split()) == ["err", "out"], said
    shell = stream(core.connect_get_namespaced_pod_exec, "server", "python", command=["/bin/sh"], stderr=True, stdin=True,
                   stdout=True, tty=False, _preload_content=False)
    shell.write_stdin("echo typed\nexit 3\n")
    shell.run_forever(timeout=30)
    assert shell.read_stdout() == "typed\n" and shell.returncode == 3, shell.returncode
    # The server may not listen yet.
    for _ in range(100):
        forward = portforward(core.connect_get_namespaced_pod_portforward, "server", "python", ports="8080")
        socket = forward.socket(8080)
        socket.setblocking(True)
        socket.sendall(b"GET /hostname HTTP/1.0\r\n\r\n")
        answer = b""
        while True:
            part = socket.recv(4096)
            if not part:
                break
            answer += part
        if answer:
            break
    assert answer.endswith(b"server\n"), answer
    log = core.read_namespaced_pod_log("server", "python")
    assert "GET /hostname" in log, log
    core.delete_namespaced_pod("server", "python", grace_period_seconds=0)


def main():
    api = config.new_client_from_config(sys.argv[1])
    core = client.CoreV1Api(api)
    config_maps(core)
    kinds(api)
    if "node" in sys.argv[2:]:
        pods(core)
    core.delete_namespace("python")
    print("done")


main()
