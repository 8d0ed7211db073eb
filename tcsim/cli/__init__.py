"""The command line of tcsim."""

from tcsim.cli.app import main

__all__ = ["main"]
