"""What the model of a study has learned, for whoever explains or draws it."""

from __future__ import annotations

from optuna.study import Study

from autotune.engine.sglang.limits import space_on
from autotune.errors import AutotuneError
from autotune.search.knowledge import Knowledge
from autotune.search.observation import observations
from autotune.search.warm import earlier_knowledge
from autotune.space import load_space
from autotune.study.reading import StudyView


def knowledge_of(view: StudyView, study: Study) -> Knowledge | None:
    """What the study itself knew when it was last asked.

    Args:
        study: the same study in its storage.

    Returns:
        None where nothing was measured, or the file of its space is gone.
    """
    versions = [r.versions["sglang"] for r in view.records if r.versions.get("sglang")]
    command = view.command.for_version(versions[-1]) if versions else view.command
    try:
        space = space_on(load_space(view.config.space).reaching(view.ranges), command)
    except AutotuneError:
        return None
    seen = observations(study, space)
    if not any(o.outcome == "measured" for o in seen):
        return None
    seed = [view.config.seed, len(seen)]
    return Knowledge(space, view.objective, seen, seed, earlier_knowledge(study, space))
