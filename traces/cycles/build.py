"""Make the PTX of a suite here and pack it, with nothing recorded yet: ``python traces/cycles/build.py SUITE FOLDER``.

``SUITE.toml`` names PTX files. ``NAME.ptx`` comes from ``NAME.cu`` by nvcc (13.0 made the files that were recorded) for sm_80,
``hopper.cu`` for sm_90a, a Triton file from the script that defines a kernel of its name (``triton_*.py``). The archive
``FOLDER/SUITE.tar.xz`` is what ``python -m gpu_ref correlate --measure`` records.
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
                target = "sm_90a" if source.stem == "hopper" else "sm_80"
                command = ["nvcc", "-ptx", f"-arch={target}", "-lineinfo", source.name, "-o", str(path)]
                subprocess.run(command, cwd=HERE, check=True)
                path.write_text(re.sub(r'(\.file\s+\d+\s+")[^"]*/', r"\1", path.read_text()))
        write(folder, {}, launches)
        archive = out / f"{suite}.tar.xz"
        pack(folder, archive)
    return archive


if __name__ == "__main__":
    print(build(sys.argv[1], Path(sys.argv[2])))
