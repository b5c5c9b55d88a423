# SPDX-License-Identifier: Apache-2.0
"""Measurements, beside nova's report client and without it. See docs/measured.rst."""
