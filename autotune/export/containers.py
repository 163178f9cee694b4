"""The server in a container: ``docker run``, Compose, Kubernetes."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from autotune.engine.sglang.command import EVERY_HOST, MASK
from autotune.engine.sglang.container import image_index
from autotune.errors import UsageError
from autotune.export.recipe import Attachment, Recipe
from autotune.export.words import (
    comments,
    masked_names,
    options_of,
    server_words,
    split_environment,
)
from autotune.export.yaml_text import yaml_text

_PROGRAM = ("python3", "-m", "sglang.launch_server")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_CACHE = ("~/.cache/huggingface", "/root/.cache/huggingface")
_PATHS = ("--model-path", "--model", "--tokenizer-path", "--speculative-draft-model-path",
          "--speculative-draft-model", "--speculative-token-map", "--chat-template",
          "--speculative-adaptive-config")  # fmt: skip
_SILENT = frozenset({"--rm", "-d", "--detach", "-i", "-t", "-it", "-ti", "--name", "--label", "-l"})
"""Options of ``docker run`` that say how it was started, not what the server needs."""
_ALONE = re.compile(r"-[ditPq]+|--(?:detach|init|interactive|privileged|quiet|read-only|rm|tty)")
_LONG = {"-e": "--env", "-v": "--volume", "-p": "--publish", "-w": "--workdir", "-u": "--user",
         "--net": "--network"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Container:
    """One container that serves.

    Attributes:
        argv: the words behind the image: the image's own command is replaced by them.
        environment: variables and their values; None: passed on from outside.
        volumes: ``host:inside[:ro]``.
        gpus: as ``docker run --gpus`` has it; empty: none.
        network: ``host``, or empty for a network of its own, in which ``port`` is published.
        shm: of ``--shm-size``; empty: the memory of the host is shared (``--ipc=host``).
        left_out: options of the measured ``docker run`` that have no counterpart here.
    """

    image: str
    argv: tuple[str, ...]
    port: int
    entrypoint: str = ""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    gpus: str = "all"
    network: str = ""
    shm: str = ""
    workdir: str = ""
    user: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """What to know before use, in lines."""
        lines = []
        if self.left_out:
            lines.append(f"not carried over from docker run: {' '.join(self.left_out)}")
        if self.image.endswith(":latest"):
            lines.append("the release of SGLang is not known: name the image that you tested")
        return lines


def container_of(recipe: Recipe, format_name: str) -> Container:
    """The container that runs what was measured.

    A ``docker run`` keeps its image and its words. A plain command keeps the server's own words and
    its variables; its Python and its wrappers belong to the machine, and the image has its own.

    Raises:
        UsageError: a script of the user starts the server.
    """
    if image_index(recipe.command.argv) is not None:
        return _from_docker(recipe)
    environment, _ = split_environment(recipe.command.argv)
    command = recipe.command
    if command.host in (None, *_LOOPBACK):
        command = command.with_flags({"host": EVERY_HOST})
    words = server_words(command, format_name)
    mounts = dict.fromkeys(
        option.values[0]
        for option in options_of(words)
        if option.head in _PATHS and len(option.values) == 1 and option.values[0].startswith("/")
    )
    for path in mounts:
        if ":" in path:
            raise UsageError(f"{path!r} cannot be mounted: a colon separates the parts of a volume")
    attached = recipe.file.path if recipe.file else None
    cache = () if mounts.keys() - {attached} else (":".join(_CACHE),)
    release = recipe.release
    return Container(
        image=f"lmsysorg/sglang:{f'v{release}' if release else 'latest'}",
        argv=(*_PROGRAM, *words),
        port=recipe.port,
        environment=_passed(environment),
        volumes=tuple(f"{path}:{path}:ro" for path in mounts) + cache,
    )


def _passed(environment: Mapping[str, str]) -> dict[str, str | None]:
    hidden = masked_names(environment, MASK)
    return {name: None if name in hidden else value for name, value in environment.items()}


def _from_docker(recipe: Recipe) -> Container:
    argv = recipe.command.argv
    image = image_index(argv)
    assert image is not None, "the caller has looked"
    run = max(i for i in range(image) if argv[i] == "run") + 1
    given: dict[str, list[str]] = {}
    left: list[str] = []
    at = run
    known = ("--env", "--volume", "--gpus", "--network", "--shm-size", "--ipc", "--publish",
             "--entrypoint", "--workdir", "--user")  # fmt: skip
    while at < image:
        name, joined, value = argv[at].partition("=")
        size = 1 if joined or _ALONE.fullmatch(name) else 2
        value = value if joined else argv[at + 1] if size == 2 else ""
        name = _LONG.get(name, name)
        if name in known:
            given.setdefault(name, []).append(value)
        elif name not in _SILENT and not re.fullmatch(r"-[dit]+", name):
            left.extend(argv[at : at + size])
        at += size
    variables = dict(_variable(text) for text in given.get("--env", []))
    hidden = masked_names({k: v for k, v in variables.items() if v is not None}, MASK)
    one = {name: values[-1] for name, values in given.items()}
    return Container(
        image=argv[image],
        argv=tuple(argv[image + 1 :]),
        port=recipe.port,
        entrypoint=one.get("--entrypoint", ""),
        environment={k: None if k in hidden else v for k, v in variables.items()},
        volumes=tuple(given.get("--volume", [])),
        gpus=one.get("--gpus", ""),
        network="host" if one.get("--network") == "host" else "",
        shm=one.get("--shm-size", ""),
        workdir=one.get("--workdir", ""),
        user=one.get("--user", ""),
        left_out=tuple(left),
    )


def _variable(text: str) -> tuple[str, str | None]:
    name, given, value = text.partition("=")
    return name, value if given else None


def docker(recipe: Recipe) -> str:
    """``docker run``; the command itself where that is what was measured."""
    if image_index(recipe.command.argv) is not None:
        return f"#!/bin/sh\n{comments(recipe.provenance)}{recipe.command.shell()}\n"
    made = container_of(recipe, "docker")
    options = [["docker", "run", "--rm"], ["--gpus", made.gpus], ["--ipc=host"],
               ["-p", f"{made.port}:{made.port}"]]  # fmt: skip
    options += [["-e", k if v is None else f"{k}={v}"] for k, v in made.environment.items()]
    lines = [shlex.join(option) for option in options]
    for volume in made.volumes:
        home = volume.startswith("~/")
        lines.append("-v " + (f'"$HOME"{shlex.quote(volume[1:])}' if home else shlex.quote(volume)))
    lines.append(shlex.join([made.image, *made.argv[: len(_PROGRAM)]]))
    lines += [_flag(option.head, option.values, option.joined)
              for option in options_of(made.argv[len(_PROGRAM) :])]  # fmt: skip
    body = " \\\n  ".join(lines)
    return f"#!/bin/sh\n{comments([*recipe.provenance, *made.remarks])}{body}\n"


def _flag(head: str, values: Sequence[str], joined: bool) -> str:
    return shlex.quote(f"{head}={values[0]}") if joined else shlex.join([head, *values])


def compose(recipe: Recipe) -> str:
    """A Compose file of one service; a dollar sign is doubled, since Compose replaces variables."""
    made = container_of(recipe, "compose")
    start_s = recipe.startup_budget_s
    service: dict[str, Any] = {"image": made.image}
    if made.entrypoint:
        service["entrypoint"] = [made.entrypoint]
    service["command"] = list(made.argv)
    if made.environment:
        service["environment"] = dict(made.environment)
    if made.network:
        service["network_mode"] = made.network
    else:
        service["ports"] = [f"{made.port}:{made.port}"]
    if made.volumes:
        service["volumes"] = list(made.volumes)
    service |= {"shm_size": made.shm} if made.shm else {"ipc": "host"}
    service |= {"working_dir": made.workdir} if made.workdir else {}
    service |= {"user": made.user} if made.user else {}
    service["ulimits"] = {"memlock": -1, "stack": 67108864}
    service["restart"] = "unless-stopped"
    service["stop_grace_period"] = "60s"
    service["healthcheck"] = {
        "test": ["CMD", "curl", "-f", f"http://127.0.0.1:{made.port}/health"],
        "interval": "30s",
        "timeout": "20s",
        "retries": 3,
        "start_period": f"{start_s}s",
    }
    if made.gpus:
        device = {"driver": "nvidia", **_devices(made.gpus), "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    document = {"services": {"sglang": _doubled(service)}}
    return comments([*recipe.provenance, *made.remarks]) + yaml_text(document)


def _devices(gpus: str) -> dict[str, Any]:
    text = gpus.strip('"')
    if text.startswith("device="):
        return {"device_ids": text.removeprefix("device=").split(",")}
    return {"count": int(text) if text.isdigit() else "all"}


def _doubled(value: Any) -> Any:  # noqa: ANN401 (any plain value)
    """Each ``$`` as ``$$``, in values; Compose and Kubernetes replace variables there."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, list):
        return [_doubled(item) for item in value]
    if isinstance(value, dict):
        return {key: _doubled(item) for key, item in value.items()}
    return value


def kubernetes(recipe: Recipe) -> str:
    """A Deployment and a Service."""
    made = container_of(recipe, "k8s")
    name = _label(f"sglang-{recipe.study}")
    labels = {"app": name}
    volumes, mounts = _mounts(made)
    attached = [] if recipe.file is None else [_attached(recipe.file, f"{name}-files", labels)]
    if recipe.file is not None:
        _take_from_map(recipe.file, volumes, mounts, f"{name}-files")
    pod: dict[str, Any] = {"containers": [_container(recipe, made, mounts)], "volumes": volumes}
    if made.network:
        pod["hostNetwork"] = True
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": labels,
            "ports": [{"name": "http", "port": made.port, "targetPort": made.port}],
        },
    }
    head = comments([*recipe.provenance, *made.remarks, *_secret_remarks(made)])
    return head + "---\n".join(map(yaml_text, (*attached, deployment, service)))


def _attached(file: Attachment, name: str, labels: dict[str, str]) -> dict[str, Any]:
    """The file as a ConfigMap: a node does not have it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {PurePath(file.path).name: file.text},
    }


def _take_from_map(
    file: Attachment, volumes: list[dict[str, Any]], mounts: list[dict[str, Any]], name: str
) -> None:
    """Lets the mount of the file come from the ConfigMap instead of the node."""
    for volume in volumes:
        if volume.get("hostPath") == {"path": file.path}:
            del volume["hostPath"]
            volume["configMap"] = {"name": name}
            mount = next(m for m in mounts if m["name"] == volume["name"])
            mount["subPath"] = PurePath(file.path).name


def kubernetes_arguments(recipe: Recipe) -> str:
    """``args`` and ``env`` of a container, for a manifest or chart that exists already."""
    made = container_of(recipe, "k8s-args")
    part: dict[str, Any] = {"args": _doubled(list(made.argv))}
    file = recipe.file
    remarks = [] if file is None else [f"mount the file {file.path} into the container yourself"]
    if made.environment:
        part["env"] = _environment(made)
    told = [*recipe.provenance, *made.remarks, *remarks, *_secret_remarks(made)]
    return comments(told) + yaml_text(part)


def _container(recipe: Recipe, made: Container, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": made.port}}
    period_s = 10
    n_gpus = recipe.n_gpus
    container: dict[str, Any] = {"name": "sglang", "image": made.image}
    if made.entrypoint:
        container["command"] = _doubled([made.entrypoint])
    container["args"] = _doubled(list(made.argv))
    if made.environment:
        container["env"] = _environment(made)
    if made.workdir:
        container["workingDir"] = made.workdir
    container["ports"] = [{"name": "http", "containerPort": made.port}]
    if made.gpus and n_gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": n_gpus}}
    failures = math.ceil(recipe.startup_budget_s / period_s)
    container |= {
        "startupProbe": health | {"periodSeconds": period_s, "failureThreshold": failures},
        "readinessProbe": health | {"periodSeconds": 10, "timeoutSeconds": 20},
        "livenessProbe": health | {"periodSeconds": 30, "timeoutSeconds": 20},
        "volumeMounts": mounts,
    }
    return container


def _environment(made: Container) -> list[dict[str, Any]]:
    """A variable that is passed on comes from a Secret."""
    secret = {"name": "sglang-secrets"}
    return [
        {"name": name, "value": _doubled(value)}
        if value is not None
        else {"name": name, "valueFrom": {"secretKeyRef": {**secret, "key": name}}}
        for name, value in made.environment.items()
    ]


def _secret_remarks(made: Container) -> list[str]:
    names = [name for name, value in made.environment.items() if value is None]
    return [f"the Secret sglang-secrets must hold {', '.join(names)}"] if names else []


def _mounts(made: Container) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    mounts: list[dict[str, Any]] = [{"name": "shm", "mountPath": "/dev/shm"}]
    for i, volume in enumerate(made.volumes):
        outside, _, rest = volume.partition(":")
        inside, _, mode = rest.partition(":")
        if outside.startswith("~"):  # a pod has no home on its node
            source: dict[str, Any] = {"emptyDir": {}}
        elif outside.startswith("/"):
            source = {"hostPath": {"path": outside}}
        else:
            source = {"persistentVolumeClaim": {"claimName": _label(outside)}}
        name = f"volume-{i}"
        volumes.append({"name": name, **source})
        read_only = {"readOnly": True} if "ro" in mode.split(",") else {}
        mounts.append({"name": name, "mountPath": inside or outside, **read_only})
    return volumes, mounts


def _label(text: str) -> str:
    """A name that Kubernetes takes: RFC 1123, at most 63 letters."""
    clean = re.sub(r"[^a-z0-9-]+", "-", text.lower())[:63].strip("-")
    return clean or "sglang"
