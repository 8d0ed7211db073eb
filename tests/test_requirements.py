"""What a plain ``pip install`` brings is enough: nothing that tcsim imports when it starts comes with an extra."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
_NAME = re.compile(r"[\w.-]+")
# Where the name to import is not that of the distribution.
_MODULES = {"cupy-cuda13x": "cupy", "import-linter": "importlinter", "nvidia-cutlass-dsl": "cutlass"}

START = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None  # so that importing it fails
import tcsim.cli, tcsim.numerics, gpu_ref.__main__
"""


def _names(requirements: list[str]) -> set[str]:
    return {match[0].lower() for match in map(_NAME.match, requirements) if match}


def test_nothing_of_an_extra_is_imported_at_the_start() -> None:
    extras = set().union(*map(_names, PROJECT["optional-dependencies"].values())) - _names(PROJECT["dependencies"])
    modules = [_MODULES.get(name, name).replace("-", "_") for name in sorted(extras) if not name.startswith("nvidia-cuda-")]
    assert "cupy" in modules and "hypothesis" in modules
    answer = subprocess.run([sys.executable, "-c", START, *modules], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
