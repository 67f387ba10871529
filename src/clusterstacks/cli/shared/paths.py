"""Types of options that name files and directories which exist."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY: Final = click.Path(exists=True, file_okay=False, path_type=Path)
