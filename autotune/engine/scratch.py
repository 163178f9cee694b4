"""A temporary folder that is gone when its owner is, however the owner ends."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from autotune.engine.watchdog import Watchdog


class Scratch:
    """A folder for the life of this object; see ``folder``. Close it.

    A watchdog knows the folder before it exists, and until it is gone: SIGKILL leaves nothing.

    Args:
        prefix: of its name.
        longest: characters of its path at most; a longer one is made in ``/tmp``.
    """

    def __init__(self, prefix: str, *, longest: int | None = None) -> None:
        name = f"{prefix}{uuid.uuid4().hex[:12]}"
        folder = Path(tempfile.gettempdir(), name)
        if longest is not None and len(str(folder)) > longest:
            folder = Path("/tmp", name)
        self.folder = folder
        self._guard = Watchdog(f"AUTOTUNE_SCRATCH={name}", [("rm", "-rf", str(folder))])
        try:
            folder.mkdir(mode=0o700)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes the folder with all that is in it. A second call does nothing."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._guard.dismiss()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
