"""``python -m tcsim``."""

import sys

from tcsim.cli import main

sys.exit(main())
