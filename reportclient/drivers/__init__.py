# SPDX-License-Identifier: Apache-2.0
"""Drivers: what there is, as edits of a provider tree.

`HostDriver` reads this machine, `FileDriver` a file. Anything else that has
`update_provider_tree` is a driver too: see `Driver`.
"""

from reportclient.driver import Driver
from reportclient.drivers.file import FileDriver
from reportclient.drivers.host import HostDriver

__all__ = ["Driver", "FileDriver", "HostDriver"]
