"""`python -m nesi` does what the command `nesi` does."""

import sys

from nesi.cli import main

if __name__ == "__main__":
    sys.exit(main())
