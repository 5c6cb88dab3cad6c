"""python -m nesi {run, compare, report, tune, label}"""

import sys

from nesi.cli import main

if __name__ == "__main__":
    sys.exit(main())
