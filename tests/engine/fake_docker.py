"""Stands in for ``docker`` where no engine runs: ``python fake_docker.py STATE run … IMAGE WORDS``.

As with the real one, a container is not a child of the client that runs it: it lives in a session
of its own under a shim, with the environment of its options alone, and survives the client.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

STATE = Path(sys.argv[1])
VALUED = {"-e", "-p", "-v", "--name", "--label", "--network", "--gpus", "--shm-size", "--ipc"}
ALONE = {"--rm", "-q"}


def state_of(name: str) -> Path:
    return STATE / f"{name}.json"


def read(name: str) -> dict[str, Any] | None:
    with suppress(OSError):
        found: dict[str, Any] = json.loads(state_of(name).read_text())
        return found
    return None


def write(name: str, state: dict[str, Any]) -> None:
    new = STATE / f"{name}.{os.getpid()}.new"
    new.write_text(json.dumps(state))
    new.replace(state_of(name))


def fail(reason: str, status: int = 1) -> None:
    print(f"Error response from daemon: {reason}", file=sys.stderr)
    sys.exit(status)


def run(words: list[str]) -> None:
    options: list[tuple[str, str]] = []
    while words and words[0].startswith("-"):
        word = words.pop(0)
        name, joined, value = word.partition("=")
        if not joined and name in VALUED:
            value = words.pop(0)
        elif name not in VALUED | ALONE:
            fail(f"the stand-in knows no {word}", 125)
        options.append((name, value))
    words.pop(0)  # the image
    given = dict(options)
    name = given.get("--name", f"nameless-{os.getpid()}")
    if read(name) is not None:
        fail(f"Conflict. The container name {name} is already in use", 125)
    env = {"PATH": os.environ["PATH"]}
    for variable in (value for option, value in options if option == "-e"):
        key, joined, value = variable.partition("=")
        if joined or key in os.environ:
            env[key] = value if joined else os.environ[key]
    log = STATE / f"{name}.log"
    log.touch()
    labels = [value for option, value in options if option == "--label"]
    state = {"labels": labels, "rm": "--rm" in given, "env": env, "words": words, "status": None}
    write(name, state)
    subprocess.Popen(
        [sys.executable, __file__, str(STATE), "shim", name],
        env={"PATH": os.environ["PATH"]},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def hand_on(signum: int, frame: FrameType | None) -> None:
        kill([name], signal.Signals(signum))

    signal.signal(signal.SIGTERM, hand_on)
    with log.open() as file:
        while True:
            now = read(name)
            sys.stdout.write(file.read())
            sys.stdout.flush()
            if now is None or now["status"] is not None:
                break
            time.sleep(0.02)
    sys.exit(now["status"] if now else 137)


def shim(name: str) -> None:
    state = read(name)
    assert state is not None
    with (STATE / f"{name}.log").open("w") as log:
        try:
            server = subprocess.Popen(
                state["words"],
                env=state["env"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        except OSError:
            write(name, state | {"status": 127})
            return
        write(name, state | {"pid": server.pid})
        status = server.wait()
        with suppress(OSError):
            os.killpg(server.pid, signal.SIGKILL)  # a container ends with its first process
        write(name, state | {"status": status if status >= 0 else 128 - status})
    if state["rm"]:
        time.sleep(0.1)  # the client reads the status before
        state_of(name).unlink(missing_ok=True)


def kill(names: list[str], signum: signal.Signals = signal.SIGKILL) -> None:
    for name in names:
        state = read(name)
        if state is None or state["status"] is not None:
            fail(f"No such running container: {name}")
        elif "pid" in state:
            with suppress(OSError):
                os.kill(state["pid"], signum)


def stop(words: list[str]) -> None:
    assert words[0] == "-t"
    ends = time.monotonic() + int(words[1])
    kill(words[2:], signal.SIGTERM)
    while time.monotonic() < ends and is_running(words[2]):
        time.sleep(0.02)
    if is_running(words[2]):
        kill(words[2:])


def is_running(name: str) -> bool:
    state = read(name)
    return state is not None and state["status"] is None


def remove(words: list[str]) -> None:
    assert words[0] == "-f"
    for name in words[1:]:
        if read(name) is None:
            fail(f"No such container: {name}")
        if is_running(name):
            kill([name])
        ends = time.monotonic() + 5
        while is_running(name) and time.monotonic() < ends:
            time.sleep(0.02)
        state_of(name).unlink(missing_ok=True)


def ps(words: list[str]) -> None:
    label = words[words.index("--filter") + 1].removeprefix("label=") if "--filter" in words else ""
    for path in STATE.glob("*.json"):
        state = read(path.stem)
        if state and (not label or label in state["labels"]):
            print(path.stem)


def inspect(words: list[str]) -> None:
    state = read(words[-1])
    if state is None:
        fail(f"No such object: {words[-1]}")
    else:
        print(json.dumps([f"{key}={value}" for key, value in state["env"].items()]))


def main() -> None:
    verb, words = sys.argv[2], sys.argv[3:]
    match verb:
        case "run":
            run(words)
        case "shim":
            shim(words[0])
        case "kill":
            kill(words)
        case "stop":
            stop(words)
        case "rm":
            remove(words)
        case "ps":
            ps(words)
        case "inspect":
            inspect(words)
        case _:
            fail(f"the stand-in knows no {verb}")


if __name__ == "__main__":
    main()
