"""Lets `python -m appliance` be the command `appliance`."""

import sys

from appliance.cli import main

if __name__ == "__main__":
    sys.exit(main())
