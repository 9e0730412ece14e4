"""Runs the supervisor; the only file of the program that is started by its path.

Usage: python -I -S start.py NAME CONFIGURATION, where NAME marks the process and CONFIGURATION is JSON.
"""

import sys

sys.path.insert(0, __file__.rpartition("/")[0])

from fleet_agent.main import main  # type: ignore[import-not-found]

main(sys.argv[2].encode())
