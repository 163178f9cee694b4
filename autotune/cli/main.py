"""The ``autotune`` command: finds the subcommand; an error becomes one sentence and a code."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module

import click

from autotune import __version__
from autotune.errors import AutotuneError, Interrupted, interrupt_behind, is_disk_full

COMMANDS = {
    "optimize": "search the launch flags: one server launch per trial, front and flags at the end",
    "confirm": "launch what a study recommends and your own flags afresh: the proof",
    "adaptive": "launch draft steps that follow the batch, and compare with the best fixed ones",
    "measure": "measure one configuration or a running server, no search",
    "show": "trials and front of a study, with intervals and the change against the baseline",
    "pareto": "the front of a study; the weight may change after the run",
    "explain": "why these flags: which limit binds, what one more step would do, what is close",
    "export": "the best launch flags as a script, SGLang YAML, docker, compose, k8s or systemd",
    "report": "write a study as one self-contained HTML page",
    "dashboard": "the Optuna dashboard on a study, on 127.0.0.1",
    "space": "list, show and check search spaces",
    "workload": "list and inspect workloads; check and convert workload files",
    "doctor": "check everything a first launch depends on, and start nothing",
    "schema": "the JSON Schemas of records, events and what --json prints",
    "diagnose": "why a server failed, from its log: the line, the remedy, what a study would do",
    "simulate": "run the simulated SGLang server alone, with SGLang's own flags",
}

EXAMPLES = """
\b
Examples:
  autotune optimize --objective agentic
      tune the bundled simulated server: the whole tool, without a GPU
  autotune optimize -- python -m sglang.launch_server --model-path M --tp 4 \\
      --speculative-algorithm EAGLE --speculative-num-steps 3 \\
      --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
      tune your own server; its flags are the baseline
  autotune measure --url http://127.0.0.1:30000 --concurrency 1,16
  autotune export --format shell
"""


class _Commands(click.Group):
    """Imports a subcommand only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"autotune.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from autotune.errors import nearest

        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}: {nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.command(
    cls=_Commands,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="autotune")
def group() -> None:
    """Find the SGLang launch flags for a model, a machine and a workload in a few relaunches."""


def main() -> None:
    """Runs the command line and exits with the documented code."""
    code = run(sys.argv[1:])
    if code > 128:  # what an interrupt left half made, one more Ctrl-C, or a terminal that is gone
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def run(argv: list[str]) -> int:
    """The exit code of a command line; whatever went wrong is said on stderr."""
    try:
        code = group.main(argv, prog_name="autotune", standalone_mode=False)
        return code if isinstance(code, int) else 0  # click returns the code of an Exit
    except AutotuneError as error:
        _say(error.message, error.hint)
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        _say(error.format_message(), _usage_hint(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort) as stop:
        # Inside a command click turns every KeyboardInterrupt into an Abort.
        cause = stop if isinstance(stop, Interrupted) else stop.__cause__
        return cause.exit_code if isinstance(cause, Interrupted) else 130
    except OSError as error:
        interrupt = interrupt_behind(error)
        if interrupt is not None:
            return interrupt.exit_code
        if not is_disk_full(error):
            raise
        _say(
            f"no space is left on the device{f' of {error.filename}' if error.filename else ''}",
            "make room, then run the same command again: what was measured is kept",
        )
        return 7


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"see: {context.command_path} --help" if context is not None else ""


def _say(message: str, hint: str) -> None:
    click.echo(f"autotune: {message}", err=True)
    if hint:
        click.echo(f"          {hint}", err=True)


if __name__ == "__main__":
    main()
