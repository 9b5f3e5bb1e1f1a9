"""`skills`: the instructions for coding assistants that come with graphrt, listed and copied into a project.

A skill is a folder with a `SKILL.md`, in the form of https://agentskills.io; assistants read them from a folder of the
project. They are data of the package `graphrt.skills`, which has no code.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import click

import graphrt
from graphrt.cli.command import SETTINGS, Command, LazyGroup
from graphrt.cli.output import Answer
from graphrt.console import counted, views

COMMANDS: Final = {
    "list": ("graphrt.cli.skills:list_", "List the skills."),
    "install": ("graphrt.cli.skills:install", "Copy the skills into a folder of a project."),
}
"""Maps a subcommand to its function and the first line of its help."""
SOURCE: Final = Path(graphrt.__file__).parent / "skills"
FOLDER: Final = ".agents/skills"
"""The folder that most assistants read; Claude Code reads `.claude/skills`."""


@click.group("skills", cls=LazyGroup, table=COMMANDS, context_settings=SETTINGS)
def skills() -> None:
    """List or install the skills for coding assistants."""


@click.command("list", cls=Command)
def list_() -> Answer:
    """List the skills."""
    described = [{"name": path.name, "description": _description(path)} for path in _skills()]
    return Answer(
        data={"skills": described},
        lines=lambda width: [
            line for skill in described for line in views.paragraph(f"{skill['name']}: {skill['description']}", width)
        ],
    )


@click.command("install", cls=Command)
@click.argument("folder", default=FOLDER, metavar="[FOLDER]")
def install(folder: str) -> Answer:
    """Copy the skills into a folder of a project, .agents/skills by default, over earlier copies.

    Claude Code reads .claude/skills.
    """
    copied = [shutil.copytree(path, Path(folder) / path.name, dirs_exist_ok=True) for path in _skills()]
    return Answer(
        data={"skills": [str(path) for path in copied]},
        lines=lambda width: views.beside(("✓", "good"), f"{counted(len(copied), 'skill')} in {folder}", width),
    )


def _skills() -> list[Path]:
    return sorted(path.parent for path in SOURCE.glob("*/SKILL.md"))


def _description(skill: Path) -> str:
    lines = (skill / "SKILL.md").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("description: ")).removeprefix("description: ")
