"""``python -m gpu_ref.bench``, the same as ``python -m gpu_ref bench``."""

from __future__ import annotations

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
