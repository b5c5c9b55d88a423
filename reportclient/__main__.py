# SPDX-License-Identifier: Apache-2.0
"""``python -m reportclient``."""

import sys

from reportclient.cli.main import main

sys.exit(main())
