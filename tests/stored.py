"""Studies on disk, made of records without a launch, as ``optimize`` leaves them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import optuna
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.trial import TrialRecord
from autotune.study.config import RunConfig, to_yaml
from autotune.study.store import StudyStore


def stored(
    root: Path, records: Iterable[TrialRecord], config: RunConfig
) -> tuple[StudyStore, optuna.Study]:
    """The study in ``root/NAME``; its name is that of the configuration.

    Args:
        records: in the order of their numbers, from 0 on.
    """
    assert config.study is not None
    store = StudyStore(config.study, storage=config.storage, root=root)
    study = store.create(RandomSampler(seed=0))
    store.directory.mkdir(parents=True, exist_ok=True)
    (store.directory / "study.yaml").write_text(to_yaml(config), encoding="utf-8")
    with patch("os.fsync"):  # nobody needs these after a power failure, and it takes ten seconds
        study.add_trials([frozen(record) for record in records])
    return store, study


def frozen(record: TrialRecord) -> FrozenTrial:
    """The record as a trial that Optuna keeps."""
    found, limits = record.objectives, record.constraints
    without = TrialState.PRUNED if record.status == "pruned" else TrialState.FAIL
    return create_trial(
        state=TrialState.COMPLETE if found else without,
        values=[found[name].value for name in (LATENCY, THROUGHPUT)] if found else None,
        user_attrs={"record": record.to_dict()},
        system_attrs={"constraints": list(limits.values())} if limits else {},
    )
