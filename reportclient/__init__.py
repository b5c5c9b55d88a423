# SPDX-License-Identifier: Apache-2.0
"""Tell OpenStack Placement what a compute agent has."""
