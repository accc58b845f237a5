"""The whole command with additional plugins: `python own_command.py run --config FILE`."""

from not_on_spot import NotOnSpot
from spare_gpu import SpareGpu

import kubesched

if __name__ == "__main__":
    kubesched.main(plugins=[NotOnSpot, ("SpareGpu", SpareGpu)])
