"""A trial's files as Optuna artifacts, which its dashboard shows beside the trial.

Nothing is copied: ``studies/NAME/artifacts/<id>`` is a link to the file in the trial's folder, so
that ``optuna-dashboard --artifact-dir studies/NAME/artifacts`` finds it too.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path

from optuna.storages import BaseStorage

FOLDER = "artifacts"
_TYPES = {
    "server.log": "text/plain",
    "record.json": "application/json",
    "launch.sh": "text/plain",
}
"""File in a trial's folder to its media type: browsers show these instead of saving them."""
_PREFIX = "artifacts:"  # of the system attributes that optuna.artifacts (5.0.0) writes


def attach_files(storage: BaseStorage, trial_id: int, directory: Path, folder: Path) -> None:
    """Makes the files of a trial its artifacts; a trial that has any keeps those alone.

    The trial must not be finished yet. Where links cannot be made, the trial goes without.

    Args:
        trial_id: of the storage.
        directory: of the trial.
        folder: of the study's artifacts; made where it is needed.
    """
    if any(key.startswith(_PREFIX) for key in storage.get_trial_system_attrs(trial_id)):
        return
    for name, media_type in _TYPES.items():
        if not (directory / name).is_file():
            continue
        artifact_id = str(uuid.uuid4())
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            link = folder / artifact_id
            link.symlink_to(os.path.relpath(directory / name, folder))
            described = {
                "artifact_id": artifact_id, "filename": name, "mimetype": media_type,
                "encoding": None,
            }  # fmt: skip
            storage.set_trial_system_attr(
                trial_id, f"{_PREFIX}{artifact_id}", json.dumps(described)
            )
