"""The application: verbs, version, and the one place where errors become exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from hardwood import __version__
from hardwood.cli.attack import attack
from hardwood.cli.demo import demo
from hardwood.cli.evaluate import evaluate
from hardwood.cli.fit import fit
from hardwood.cli.messages import CommandError, console, say_error
from hardwood.cli.predict import predict
from hardwood.cli.show import show
from hardwood.cli.threat import threat

# Typer exports only this subclass of the error that stands for every wrong use of a command.
_UsageError: Any = typer.BadParameter.__base__


@contextmanager
def _one_sentence() -> Iterator[None]:
    """End a failure with one sentence on stderr: 1 for errors, 2 for usage, 130 for Ctrl-C."""
    try:
        yield
    except CommandError as error:
        for sentence in error.sentences:
            say_error(sentence)
        raise typer.Exit(1) from error
    except _UsageError as error:
        command = error.ctx.command_path if error.ctx else "hardwood"
        say_error(f"{error.format_message().rstrip('.')} (see: {command} --help)")
        raise typer.Exit(2) from error
    except KeyboardInterrupt as interrupt:
        say_error("interrupted")
        raise typer.Exit(130) from interrupt


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    """Let the help show a flag by its name alone: newer releases of Typer add ``<bool>``."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


class _Verb(TyperCommand):
    """A verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))


class _Verbs(TyperGroup):
    """The verbs, with failures in one sentence instead of a traceback."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _one_sentence():
            return super().parse_args(ctx, args or ["--help"])

    def invoke(self, ctx: Any) -> Any:
        with _one_sentence():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Verbs,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (demo, threat, fit, show, evaluate, attack, predict):
    app.command(cls=_Verb)(verb)


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"hardwood {__version__}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Decision trees that hold up against adversarial examples.

    Say what an attacker can do to each column of a table, fit a tree that takes it into account,
    and see exactly how the tree, or any other tree model, fares under attack.
    """
