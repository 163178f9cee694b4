"""The structure of manifests, against schemas written from the published references.

Kubernetes: the API reference of Deployment (apps/v1) and Service (v1), as far as it is used here;
Compose: the Compose Specification. Unknown keys and wrong types are what an API server and
``docker compose config`` refuse.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.versions import version
from autotune.errors import UsageError
from autotune.export import Recipe, render
from tests.export.test_export import recipe

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABELS = {"app": NAME}
VARIABLE = {
    "name": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "value?": str,
    "valueFrom?": {"secretKeyRef": {"name": NAME, "key": str}},
}  # fmt: skip
PROBE = {
    "httpGet": {"path": str, "port": int}, "periodSeconds": int, "failureThreshold?": int,
    "timeoutSeconds?": int,
}  # fmt: skip
CONTAINER = {
    "name": NAME, "image": str, "command?": [str], "args": [str], "env?": [VARIABLE],
    "workingDir?": str, "ports": [{"name": NAME, "containerPort": int}],
    "resources?": {"limits": {"nvidia.com/gpu": int}},
    "startupProbe": PROBE, "readinessProbe": PROBE, "livenessProbe": PROBE,
    "volumeMounts": [{"name": NAME, "mountPath": str, "readOnly?": bool}],
}  # fmt: skip
VOLUME = {
    "name": NAME, "emptyDir?": {"medium?": str}, "hostPath?": {"path": str},
    "persistentVolumeClaim?": {"claimName": NAME},
}  # fmt: skip
DEPLOYMENT = {
    "apiVersion": re.compile("apps/v1"), "kind": re.compile("Deployment"),
    "metadata": {"name": NAME, "labels": LABELS},
    "spec": {
        "replicas": int, "strategy": {"type": re.compile("Recreate|RollingUpdate")},
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [CONTAINER], "volumes": [VOLUME], "hostNetwork?": bool},
        },
    },
}  # fmt: skip
SERVICE = {
    "apiVersion": re.compile("v1"), "kind": re.compile("Service"),
    "metadata": {"name": NAME, "labels": LABELS},
    "spec": {"selector": LABELS, "ports": [{"name": NAME, "port": int, "targetPort": int}]},
}  # fmt: skip
DURATION = re.compile(r"\d+s")
COMPOSE = {
    "services": {
        "sglang": {
            "image": str, "entrypoint?": [str], "command": [str], "environment?": dict,
            "network_mode?": str, "ports?": [re.compile(r"\d+:\d+")],
            "volumes?": [re.compile(r"[^:]+:/[^:]*(:ro)?")], "shm_size?": str, "ipc?": str,
            "working_dir?": str, "user?": str, "ulimits": {"memlock": int, "stack": int},
            "restart": re.compile("unless-stopped|always|no|on-failure"),
            "stop_grace_period": DURATION,
            "healthcheck": {"test": [str], "interval": DURATION, "timeout": DURATION,
                            "retries": int, "start_period": DURATION},
            "deploy?": {"resources": {"reservations": {"devices": [
                {"driver": str, "count?": object, "device_ids?": [str], "capabilities": [str]}]}}},
        }
    }
}  # fmt: skip

DOCKER = (
    "docker", "run", "--rm", "-d", "--gpus", '"device=0,1"', "--shm-size", "32g", "--name", "s",
    "--network", "host", "-e", "HF_TOKEN=hf_abcdefghijklmnopqrst", "-e", "A=1$2", "-e", "B",
    "-v", "/models:/models:ro", "-v", "cache:/root/.cache", "--cpuset-cpus", "0-3",
    "lmsysorg/sglang:v0.5.20", "python3", "-m", "sglang.launch_server", "--model-path", "/models/x",
)  # fmt: skip
PLAIN = ("env", "A=1", "HF_TOKEN=secret", "/opt/venv/bin/python", "-m", "sglang.launch_server",
         "--model-path", "/data/a model", "--host", "127.0.0.1", "--port", "31000")  # fmt: skip


def check(value: Any, schema: Any, where: str = "") -> None:  # noqa: ANN401
    """Types, patterns, required and unknown keys; ``key?`` may be missing."""
    if isinstance(schema, dict):
        assert isinstance(value, dict), where
        optional = {key[:-1] for key in schema if key.endswith("?")}
        required = {key for key in schema if not key.endswith("?")}
        assert required <= set(value) <= required | optional, (where, set(value))
        for key, item in value.items():
            check(item, schema.get(key, schema.get(f"{key}?")), f"{where}.{key}")
    elif isinstance(schema, list):
        assert isinstance(value, list), where
        for item in value:
            check(item, schema[0], f"{where}[]")
    elif isinstance(schema, re.Pattern):
        assert isinstance(value, str) and schema.fullmatch(value), (where, value)
    else:
        assert isinstance(value, schema), (where, value)
        assert schema is not int or not isinstance(value, bool), where


def of(*argv: str) -> Recipe:
    command = LaunchCommand.parse(argv).redacted().for_version(version("0.5.23"))
    return replace(recipe(), command=command)


@pytest.mark.parametrize("argv", [DOCKER, PLAIN], ids=["docker", "plain"])
def test_the_structure_is_that_of_the_reference(argv: tuple[str, ...]) -> None:
    deployment, service = yaml.safe_load_all(render(of(*argv), "k8s"))
    check(deployment, DEPLOYMENT)
    check(service, SERVICE)
    spec = deployment["spec"]["template"]["spec"]
    mounted = {mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}
    check(yaml.safe_load(render(of(*argv), "compose")), COMPOSE)


def test_a_docker_run_keeps_what_it_had() -> None:
    made = of(*DOCKER)
    text = render(made, "compose")
    service = yaml.safe_load(text)["services"]["sglang"]
    assert service["image"] == "lmsysorg/sglang:v0.5.20"
    assert service["command"] == list(DOCKER[DOCKER.index("python3") :])
    assert service["environment"] == {"HF_TOKEN": None, "A": "1$$2", "B": None}
    assert service["network_mode"] == "host" and "ports" not in service
    assert service["volumes"] == ["/models:/models:ro", "cache:/root/.cache"]
    devices = service["deploy"]["resources"]["reservations"]["devices"]
    assert devices[0]["device_ids"] == ["0", "1"]
    assert "# not carried over from docker run: --cpuset-cpus 0-3" in text
    assert "hf_abc" not in text


def test_a_secret_variable_comes_from_a_secret() -> None:
    text = render(of(*PLAIN), "k8s")
    deployment, _ = yaml.safe_load_all(text)
    env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    assert env[0] == {"name": "A", "value": "1"}
    assert env[1]["valueFrom"]["secretKeyRef"] == {"name": "sglang-secrets", "key": "HF_TOKEN"}
    assert "# the Secret sglang-secrets must hold HF_TOKEN" in text


def test_a_server_in_a_container_is_reached_from_outside_and_finds_its_model() -> None:
    text = render(of(*PLAIN), "docker")
    assert "-p 31000:31000" in text and "--host 0.0.0.0" in text
    assert "-v '/data/a model:/data/a model:ro'" in text
    assert "-e HF_TOKEN \\\n" in text


def test_the_start_may_take_three_times_as_long_as_it_took() -> None:
    made = of(*PLAIN)
    slow = replace(made, record=type(made.record)(**{
        name: getattr(made.record, name) for name in made.record.__struct_fields__
    } | {"timings": {"launch_s": 400.0}}))  # fmt: skip
    deployment, _ = yaml.safe_load_all(render(slow, "k8s"))
    probe = deployment["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 1200


@pytest.mark.parametrize("format_name", ["docker", "compose", "k8s", "k8s-args", "yaml", "env"])
def test_a_script_of_the_user_has_no_such_form(format_name: str) -> None:
    for argv in (
        ("./serve.sh", "{flags}"),
        ("bash", "-lc", "source x && python -m sglang.launch_server --model-path $MODEL"),
    ):
        with pytest.raises(UsageError, match="script") as caught:
            render(of(*argv), format_name)
        assert "--format shell" in caught.value.hint
