"""A finished study whose servers are launched once more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from autotune.study.config import RunConfig


def config_of(study: str | None, words: tuple[str, ...]) -> RunConfig:
    """That of a study, with the command that was given, if any.

    Raises:
        UsageError: the command holds a secret, which no file keeps, and was not given.
    """
    from autotune.study.config import from_yaml
    from autotune.study.reading import open_store
    from autotune.study.store import MASK

    store = open_store(study)
    config = replace(from_yaml(store.directory / "study.yaml"), study=store.name)
    if config.storage is not None:
        config = replace(config, storage=store.location)
    if words:
        return replace(config, command=words)
    if any(MASK in word for word in config.command):
        raise click.UsageError(
            f"the launch command of study {store.name!r} holds a secret, which no file keeps: "
            "give the command again after --"
        )
    return config
