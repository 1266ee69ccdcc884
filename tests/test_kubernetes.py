"""The manifests of docs/how-to/kubernetes.md: well-formed, and at one with each other, the image and the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from runner.cli.main import cli

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/how-to/kubernetes.md").read_text("utf-8")
FILES = dict(re.findall(r'^```yaml title="([\w.]+)"\n(.*?)^```$', PAGE, flags=re.DOTALL | re.MULTILINE))
OBJECTS: list[dict[str, Any]] = [one for text in FILES.values() for one in yaml.safe_load_all(text)]
VERSIONS = {
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "PersistentVolumeClaim": "v1",
    "Service": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "RuntimeClass": "node.k8s.io/v1",
}
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

POD = {
    *("restartPolicy", "automountServiceAccountToken", "enableServiceLinks", "terminationGracePeriodSeconds"),
    *("securityContext", "containers", "volumes", "runtimeClassName"),
}
CONTAINER = {
    *("name", "image", "args", "env", "ports", "readinessProbe", "livenessProbe", "securityContext", "resources"),
    "volumeMounts",
}
"""Fields of the API that are used here; another one is a slip, or to be looked up and added."""


def one(kind: str) -> dict[str, Any]:
    (found,) = [each for each in OBJECTS if each["kind"] == kind]
    return found


PODS = [pytest.param(one(kind)["spec"]["template"]["spec"], id=kind) for kind in ("Job", "Deployment")]


def test_each_object_has_its_version_and_a_name() -> None:
    assert {each["kind"]: each["apiVersion"] for each in OBJECTS} == VERSIONS
    for each in OBJECTS:
        assert NAME.fullmatch(each["metadata"]["name"])
        top = {"apiVersion", "kind", "metadata", "handler" if each["kind"] == "RuntimeClass" else "spec"}
        assert each.keys() == top


@pytest.mark.parametrize("pod", PODS)
def test_a_pod_has_no_rights(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    assert pod.keys() <= POD
    assert container.keys() <= CONTAINER
    assert pod["automountServiceAccountToken"] is False
    user = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert user
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert [context["runAsUser"], context["runAsGroup"]] == [int(number) for number in user.groups()]
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("pod", PODS)
def test_a_pod_mounts_what_it_declares_and_can_write_where_it_must(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert all(len(volume) == 2 for volume in pod["volumes"])
    state = re.search(r"EVALCELL_STATE_DIR=(\S+)", DOCKERFILE)
    assert state
    assert {"/tmp", state[1]} <= set(mounts.values())
    claims = [volume["persistentVolumeClaim"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    assert all(claim["claimName"] == one("PersistentVolumeClaim")["metadata"]["name"] for claim in claims)


@pytest.mark.parametrize("pod", PODS)
def test_the_command_of_a_pod_is_one_that_evalcell_takes(pod: dict[str, Any]) -> None:
    command, *words = pod["containers"][0]["args"]
    assert all(isinstance(word, str) for word in words)
    context = click.Context(cli)
    found = cli.get_command(context, command)
    assert found is not None
    found.make_parser(context).parse_args(list(words))  # raises click's NoSuchOption
    paths = [word for word in words if word.startswith("/")]
    places = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
    assert all(str(Path(path).parent) in places for path in paths)


def test_the_job_gives_up_where_another_try_would_say_the_same() -> None:
    spec = one("Job")["spec"]
    (rule,) = spec["podFailurePolicy"]["rules"]
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never"  # which a policy of failures wants
    assert rule["onExitCodes"]["containerName"] == pod["containers"][0]["name"]
    assert rule["onExitCodes"]["values"] == [1, 2]
    created = re.search(r"kubectl create configmap (\S+) (.*)", PAGE)
    assert created
    assert created[1] == next(v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v)
    files = re.findall(r"--from-file=(\S+)", created[2])
    assert [f"/input/{name}" for name in files] == pod["containers"][0]["args"][1:3]


def test_the_service_leads_to_the_server() -> None:
    spec, service = one("Deployment")["spec"], one("Service")
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    assert one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    (container,) = spec["template"]["spec"]["containers"]
    (port,) = container["ports"]
    exposed = re.search(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
    assert exposed
    assert port["containerPort"] == int(exposed[1])
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert {container[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} == {port["name"]}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    args = container["args"]
    assert args[args.index("--allow-host") + 1] == service["metadata"]["name"]
    secret = re.search(r"kubectl create secret generic (\S+) --from-literal=(\w+)=", PAGE)
    assert secret
    reference = container["env"][0]["valueFrom"]["secretKeyRef"]
    assert [reference["name"], reference["key"]] == list(secret.groups())


def test_the_class_that_pods_may_have_is_there() -> None:
    named = re.search(r"`runtimeClassName: (\w+)`", PAGE)
    assert named
    assert named[1] == one("RuntimeClass")["metadata"]["name"]
    assert one("RuntimeClass")["handler"] == "runsc"
