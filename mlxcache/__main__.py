"""`python -m mlxcache`: the command, where its folder of programs is not on the path."""

import sys

from mlxcache.cli import main

sys.exit(main())
