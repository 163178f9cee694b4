"""The adaptive stage: one launch with steps that follow the batch, on the prompts of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from autotune.core.trial import TrialRecord
from autotune.engine.sglang.adaptive import file_text
from autotune.engine.sglang.versions import Version
from autotune.errors import StudyError
from autotune.events import TrialEnded
from autotune.study.adaptation import MARK, AdaptiveLaunch
from autotune.study.evaluate import Evaluator
from autotune.study.launcher import Launcher
from autotune.study.suggestion import Suggestion

FILE = "adaptive.json"
"""In the study's folder: what its last adaptive launch ran with."""


@dataclass(slots=True)
class AdaptStage:
    """Launches what the measurements of one study suggest.

    Attributes:
        version: of the SGLang that is launched.
        n_launches: of this table in all; those made before count.
    """

    suggestion: Suggestion
    launcher: Launcher
    evaluator: Evaluator
    version: Version | None
    n_launches: int = 1

    def run(self) -> None:
        """Makes the launches that are missing. One that fails is an answer, too.

        Raises:
            LaunchError: the launch command cannot be run.
            StudyError: the file cannot be written.
            Interrupted: a signal came; what was measured is kept.
        """
        path = self._write()
        with self.launcher.tidied():
            for _ in range(self.n_launches - len(self._made())):
                self._launch(path)

    def _made(self) -> Sequence[AdaptiveLaunch]:
        every = self.launcher.store.adaptive_launches(self.launcher.study)
        mine = [a for a in every if a.plan == self.suggestion.plan]
        return [a for a in mine if a.record.objectives is not None]

    def _write(self) -> Path:
        path = (self.launcher.store.directory / FILE).resolve()
        try:
            path.write_text(file_text(self.suggestion.tiers, self.version), encoding="utf-8")
        except OSError as error:
            raise StudyError(f"{path} cannot be written: {error.strerror}") from None
        return path

    def _launch(self, path: Path) -> None:
        flags = self.suggestion.flags(str(path))
        marks = {MARK: msgspec.to_builtins(self.suggestion.plan)}
        reason = "steps that follow the batch"
        proposal = self.launcher.enqueued(flags, "adaptive", reason, marks)

        def measure(directory: Path) -> TrialRecord:
            return self.evaluator.evaluate(
                flags, number=proposal.trial.number, directory=directory, role="adaptive"
            )

        self.launcher.launch(proposal, measure, self._tell, self._tell)

    def _tell(self, record: TrialRecord) -> None:
        self.launcher.listener(TrialEnded(record, None, None, None, None))
