"""Make the PTX of a suite here and pack it, with nothing recorded yet: ``python traces/cycles/build.py SUITE FOLDER``.

``SUITE.toml`` names PTX files. ``NAME.ptx`` comes from ``NAME.cu`` by nvcc (13.0 made the files that were recorded) for the
target that :data:`TARGETS` names, a Triton file from the script that defines a kernel of its name (``triton_*.py``). The
archive ``FOLDER/SUITE.tar.xz`` is what ``python -m gpu_ref correlate --measure`` records.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpu_ref.correlation.archives import pack, suite_launches, write

HERE = Path(__file__).parent

TARGETS = {"hopper": "sm_90a", "held_hopper": "sm_90a", "held": "sm_90", "": "sm_80"}
"""By the name of a source file, or what it begins with."""


def build(suite: str, out: Path) -> Path:
    """Build suite ``suite`` into folder ``out`` and return the archive. Raises CalledProcessError if a compiler fails."""
    launches = suite_launches(HERE / f"{suite}.toml")
    with tempfile.TemporaryDirectory() as unpacked:
        folder = Path(unpacked)
        for part in ("ptx", "source"):
            (folder / part).mkdir()
        shutil.copy(HERE / f"{suite}.toml", folder / "source")
        wanted = {launch["ptx"] for launch in launches.values()}
        for script in sorted(HERE.glob("triton_*.py")):
            if any(re.search(rf"^def {name.partition('.')[0]}\(", script.read_text(), re.MULTILINE) for name in wanted):
                subprocess.run([sys.executable, script, folder / "ptx"], check=True)
                shutil.copy(script, folder / "source")
        for name in sorted(wanted):
            path, source = folder / "ptx" / name, HERE / f"{Path(name).stem}.cu"
            if source.exists():
                shutil.copy(source, folder / "source")
                target = next(target for start, target in TARGETS.items() if source.stem.startswith(start))
                command = ["nvcc", "-ptx", f"-arch={target}", "-lineinfo", source.name, "-o", str(path)]
                subprocess.run(command, cwd=HERE, check=True)
                path.write_text(re.sub(r'(\.file\s+\d+\s+")[^"]*/', r"\1", path.read_text()))
        write(folder, {}, launches)
        archive = out / f"{suite}.tar.xz"
        pack(folder, archive)
    return archive


if __name__ == "__main__":
    print(build(sys.argv[1], Path(sys.argv[2])))
