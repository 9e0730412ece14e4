"""``python -m services.offline``: serve the offline model at the address of the policy."""

import sys

from services.offline.main import main

sys.exit(main())
