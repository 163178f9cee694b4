"""From a configuration to a running study: everything put together in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from autotune.core.objective import Objective, parse_slo
from autotune.core.trial import Flags, TrialRecord
from autotune.engine.local import LocalEngine
from autotune.engine.places.choose import place_for
from autotune.engine.places.docker import is_container
from autotune.engine.places.survey import survey
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.installed import Installed, installed
from autotune.engine.sglang.limits import notes, space_on
from autotune.engine.sglang.versions import Version
from autotune.engine.simulated.documents import VERSION as SIMULATED_VERSION
from autotune.engine.simulated.engine import (
    SimulatedEngine,
    bundled_command,
    runs_simulation,
    scenario_of,
    simulated_command,
)
from autotune.engine.simulated.scenarios import DEFAULT_SCENARIO
from autotune.errors import ConfigError, UsageError
from autotune.events import Listener, ignore
from autotune.measure.plan import plan_phases
from autotune.search import AnySampler, sampler_named
from autotune.search.edge import kept_ranges
from autotune.search.simple import DEFAULT as DEFAULT_SAMPLER
from autotune.search.warm import WarmStart, keep_warm_start, warm_start_of
from autotune.space import SearchSpace, load_space
from autotune.study.adapt import AdaptStage
from autotune.study.budget import Budget, StopRule, settled
from autotune.study.command_check import (
    check_accepts_really,
    check_runs,
    check_speculates,
    check_tree,
)
from autotune.study.config import RunConfig, check_same, from_yaml, load_objective, to_yaml
from autotune.study.config_check import SIMULATED_HERE
from autotune.study.confirm import ConfirmPlan, ConfirmStage
from autotune.study.confirmation import Confirmation
from autotune.study.evaluate import Evaluator
from autotune.study.interrupt import Interrupts
from autotune.study.reading import view_of
from autotune.study.reference import MIN_TRIALS, Reference, reference_for
from autotune.study.store import StudyStore, masked, slug
from autotune.study.suggestion import Suggestion, suggest
from autotune.study.tuner import Tuner
from autotune.study.twins import PINNED
from autotune.study.warm_start import read_warm_start
from autotune.workload import Workload, workload_named


@dataclass(slots=True)
class Campaign:
    """One run of ``optimize``, ready to start."""

    config: RunConfig
    store: StudyStore
    engine: LocalEngine
    space: SearchSpace
    objective: Objective
    workload: Workload
    is_bundled: bool
    installed: Installed
    warm: WarmStart | None = None
    """What this study starts, or started, from."""

    @classmethod
    def prepare(cls, config: RunConfig) -> Campaign:
        """Checks everything that can be checked before the first launch.

        Raises:
            ConfigError: the space, workload, objective, sampler or scenario does not exist.
            UsageError: the study's name or the launch command is not usable.
            StudyError: the study exists and was made under another configuration.
        """
        is_bundled = not config.command
        space = load_space(config.space)
        objective = load_objective(config.objective)
        workload = workload_named(config.workload, seed=config.seed)
        command, found = _known_command(config)
        check_speculates(space, command)
        check_tree(command)
        space = space_on(space, command)
        if not config.allow_simulated_acceptance:
            check_accepts_really(command)
        if runs_simulation(command):
            config = replace(config, engine="simulated")
        config = replace(config, command=command.redacted().argv)
        name = config.study
        if name is None:
            name = _default_name(config, command, objective)
        store = StudyStore(name, storage=config.storage)
        config = replace(config, study=name, storage=config.storage and masked(config.storage))
        _check_goes_on(config, store)
        if (store.directory / "study.yaml").exists():
            space = space.reaching(kept_ranges(store.open()))
        campaign = cls(
            config=config,
            store=store,
            engine=_engine(config, command),
            space=space,
            objective=objective,
            workload=workload,
            is_bundled=is_bundled,
            installed=found,
            warm=_warm_start(config, store, space, command),
        )
        campaign.sampler()  # it may not exist, or not be made for this space
        return campaign

    @property
    def scenario(self) -> str:
        return scenario_of(self.engine.command)

    @property
    def engine_title(self) -> str:
        if self.config.engine == "simulated":
            return f"simulated SGLang, {self.scenario}"
        return f"SGLang {self.engine.place.title}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What each rule removed from the space, and what changes the meaning of a comparison."""
        removed = (removal.describe() for removal in self.space.removals)
        return (*removed, *notes(self.space, self.engine.command))

    @property
    def baseline(self) -> Flags:
        """The searched flags as far as the base command sets them, in canonical form."""
        given = self.engine.command.flags(self.space.names)
        return self.space.canonical({**self.space.fixed, **given}) if given else {}

    @property
    def records(self) -> list[TrialRecord]:
        """What earlier runs of this study have launched."""
        if not (self.store.directory / "study.yaml").exists():
            return []
        return self.store.records(self.store.open())

    @property
    def n_done(self) -> int:
        """Launches that earlier runs of this study have made."""
        return len(settled(self.records))

    @property
    def n_to_confirm(self) -> int:
        """Launches that the confirm stage makes, if the search finds anything to confirm."""
        return self.config.confirm * (1 + self.config.finalists)

    @property
    def reference(self) -> Reference | None:
        """How speculation is switched off to compare; None: it is not."""
        if self.config.without_off or self.config.trials < MIN_TRIALS:
            return None
        return reference_for(self.engine.command, self.space, self.baseline)

    def sampler(self) -> AnySampler:
        """A new sampler; its state is the study alone.

        Raises:
            ConfigError: there is none of that name, or not for this space.
        """
        return self._sampler_of(self.space)

    def _sampler_of(self, space: SearchSpace) -> AnySampler:
        config = self.config
        return sampler_named(config.sampler, space, self.objective, seed=config.seed)

    def run(self, listener: Listener = ignore) -> str:
        """Tunes, then confirms what it found; returns why it stopped to search.

        Raises:
            LaunchError: the launch command does not exist, or the baseline cannot start.
            StudyError: another process tunes this study.
            Interrupted: a signal came.
        """
        with self._tuning(listener) as tuner:
            reason = tuner.run()
            self._confirm(tuner)
            return reason

    def confirm(self, listener: Listener = ignore) -> Confirmation | None:
        """Confirms what an existing study recommends; None: it recommends the baseline, or nothing.

        Raises:
            LaunchError: the launch command does not exist.
            StudyError: another process tunes this study.
            Interrupted: a signal came.
        """
        with self._tuning(listener) as tuner:
            tuner.resume()
            return self._confirm(tuner)

    def adapt(self, listener: Listener = ignore, n_launches: int = 1) -> Suggestion:
        """Launches the steps by batch size that an existing study suggests, if it suggests any.

        Raises:
            LaunchError: the launch command does not exist.
            NoFeasibleConfiguration: the study has nothing to start from.
            StudyError: another process tunes this study.
            UsageError: the servers do not see the files of this machine.
            Interrupted: a signal came.
        """
        if not self.engine.place.is_here or is_container(self.engine.command):
            raise UsageError(
                "the table of an adaptive server is a file of this machine, which the servers of "
                "this study do not see: they run in a container or on another machine",
                hint="autotune export --adaptive writes file and command, for autotune measure",
            )
        with self._tuning(listener) as tuner:
            tuner.resume()
            command = self.engine.command
            found = suggest(view_of(self.store, tuner.study, self.objective), command)
            if found.tiers:
                AdaptStage(
                    found, tuner.launcher, tuner.evaluator, command.version, n_launches
                ).run()
            return found

    @contextmanager
    def _tuning(self, listener: Listener) -> Iterator[Tuner]:
        if self.engine.place.is_here:
            check_runs(self.engine.command)
        interrupts = Interrupts()
        with interrupts.active(), self.store.exclusive():
            yield self._tuner(interrupts, listener)

    def _confirm(self, tuner: Tuner) -> Confirmation | None:
        config = self.config
        plan = ConfirmPlan.of(tuner.ranking(), config.confirm, config.finalists)
        if plan is None:
            return None
        evaluator = replace(tuner.evaluator, workload=self.workload.held_out())
        stage = ConfirmStage(
            plan, tuner.launcher, evaluator, self.objective, self.baseline, tuner.records
        )
        return stage.run()

    def _tuner(self, interrupts: Interrupts, listener: Listener) -> Tuner:
        sampler, reference = self.sampler(), self.reference
        study = self.store.create(sampler)
        if self.warm is not None:
            keep_warm_start(study, self.warm)
        (self.store.directory / "study.yaml").write_text(to_yaml(self.config), encoding="utf-8")
        config = self.config
        evaluator = Evaluator(
            engine=self.engine,
            workload=self.workload,
            plans=plan_phases(config.latency_concurrency, config.serving_concurrency),
            slos=[parse_slo(text) for text in config.slo],
            searched=self.space.names,
            listener=listener,
            base=self.engine.command.readable(PINNED),
            stall_s=config.stall_timeout_s,
            limit_s=config.trial_timeout_s,
            off=reference,
        )
        return Tuner(
            store=self.store,
            study=study,
            space=self.space,
            sampler=sampler,
            objective=self.objective,
            evaluator=evaluator,
            baseline=self.baseline,
            budget=Budget(config.trials, config.time_s, config.gpu_hours),
            interrupts=interrupts,
            listener=listener,
            stop_rule=StopRule(
                config.sampler == DEFAULT_SAMPLER and not config.exhaust,
                config.target_gain,
                config.patience,
            ),
            reference=reference.flags if reference else None,
            sampler_of=self._sampler_of if config.widen else None,
            prunes=config.prune and config.sampler == DEFAULT_SAMPLER,
            seed=config.seed,
        )


def _warm_start(
    config: RunConfig, store: StudyStore, space: SearchSpace, command: LaunchCommand
) -> WarmStart | None:
    """What the study keeps from its first run, else what is asked for.

    Raises:
        ConfigError: it cannot be read, or the sampler cannot use it.
        StudyError: there is no such study.
    """
    if config.warm_start is None:
        return None
    if config.sampler != DEFAULT_SAMPLER:
        raise ConfigError(f"the sampler {config.sampler} cannot use a warm start: leave one out")
    if config.warm_start == store.name:
        raise ConfigError(f"study {store.name!r} cannot start from itself: it goes on anyway")
    if (store.directory / "study.yaml").exists():
        kept = warm_start_of(store.open())
        if kept is not None:
            return kept
    model = str(command.flags(("model_path",)).get("model_path", ""))
    return read_warm_start(config.warm_start, space, model)


def engine_for(words: tuple[str, ...], seed: int, runs_on: str | None = None) -> LocalEngine:
    """The engine for a launch command alone, without a study.

    Raises:
        ConfigError: ``runs_on`` is no address of a machine.
        UsageError: the launch command is not usable.
    """
    command = LaunchCommand.parse(words)
    engine = "simulated" if runs_simulation(command) else "sglang"
    if runs_on is not None and engine == "simulated":
        raise ConfigError(SIMULATED_HERE)
    if runs_on is not None and not is_container(command):
        command, found = survey(command, runs_on)
        command = command.for_version(found.version)
    return _engine(RunConfig(engine=engine, seed=seed, runs_on=runs_on), command)


def _check_goes_on(config: RunConfig, store: StudyStore) -> None:
    """Refuses another configuration for a study that has measured something under its own.

    A study without any value may be mended: nothing in it could be mixed up.
    """
    stored = store.directory / "study.yaml"
    if not stored.exists():
        return
    before = from_yaml(stored)
    if config.storage != before.storage or any(
        record.objectives for record in store.records(store.open())
    ):
        check_same(config, before, store.name)


def _known_command(config: RunConfig) -> tuple[LaunchCommand, Installed]:
    """The command, spelled for the release of SGLang that it starts."""
    command = _command(config)
    if runs_simulation(command):
        found = Installed(Version.parse(SIMULATED_VERSION), "simulated")
    elif config.runs_on is not None and not is_container(command):
        command, found = survey(command, config.runs_on)
    else:
        found = installed(command)
    return command.for_version(found.version), found


def _command(config: RunConfig) -> LaunchCommand:
    scenario = config.scenario or DEFAULT_SCENARIO
    if not config.command:
        return bundled_command(scenario)
    command = LaunchCommand.parse(config.command)
    return simulated_command(command, scenario) if config.engine == "simulated" else command


def _engine(config: RunConfig, command: LaunchCommand) -> LocalEngine:
    if config.engine == "simulated":
        return SimulatedEngine(command, seed=config.seed, ready_timeout_s=config.ready_timeout_s)
    place = place_for(command, config.runs_on)
    return LocalEngine(command, ready_timeout_s=config.ready_timeout_s, place=place)


def _default_name(config: RunConfig, command: LaunchCommand, objective: Objective) -> str:
    """``agentic-qwen3.5-122b-agentic``: the objective, and the scenario or the model."""
    if config.engine == "simulated":
        return slug(f"{objective.name}-{scenario_of(command)}")
    model = str(command.flags(("model_path",)).get("model_path", "study"))
    return slug(f"{objective.name}-{model.rstrip('/').rpartition('/')[2]}")
