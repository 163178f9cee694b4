"""A real ``sshd`` for the tests, on the loopback, with throw-away keys."""

from __future__ import annotations

import getpass
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from autotune.engine.ports import free_port, is_listening

SSHD = Path("/usr/sbin/sshd")
SSH_TOOLS = ("ssh", "ssh-keygen")


class Sshd:
    """A real ``sshd`` on the loopback with keys of its own; ``ssh://sut`` leads to it.

    Attributes:
        config: for ``AUTOTUNE_SSH_CONFIG``.
    """

    def __init__(self, folder: Path) -> None:
        for name in ("host", "key", "other"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True)
        (folder / "authorized").write_bytes((folder / "key.pub").read_bytes())
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # it refuses to start without, as root
        port = free_port()
        host_key = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "known").write_text(f"[127.0.0.1]:{port} {host_key}\n")
        server = {
            "ListenAddress": "127.0.0.1", "Port": port, "HostKey": folder / "host",
            "AuthorizedKeysFile": folder / "authorized", "PidFile": "none", "UsePAM": "no",
            "StrictModes": "no", "PasswordAuthentication": "no", "PermitRootLogin": "yes",
            "KbdInteractiveAuthentication": "no", "PrintMotd": "no",
        }  # fmt: skip
        client = {
            "HostName": "127.0.0.1", "Port": port, "User": getpass.getuser(),
            "IdentityFile": folder / "key", "IdentitiesOnly": "yes", "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": folder / "known",
        }  # fmt: skip
        (folder / "sshd_config").write_text(_lines(server))
        self.config = folder / "ssh_config"
        stranger = {**client, "IdentityFile": folder / "other"}
        self.config.write_text(
            f"Host sut\n{_lines(client)}Host stranger\n{_lines(stranger)}"
            f"Host behind\n{_lines({**client, 'ProxyJump': 'sut'})}"
        )
        self.log = folder / "sshd.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", folder / "sshd_config"], stdout=log, stderr=log
            )
        assert _answers(port), self.log.read_text()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def _lines(settings: Mapping[str, object]) -> str:
    return "".join(f"{key} {value}\n" for key, value in settings.items())


def _answers(port: int) -> bool:
    ends = time.monotonic() + 15.0
    while not is_listening(port):
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True
