# SPDX-License-Identifier: Apache-2.0
"""Why a target is missed, where it is. Shown only then."""

REASONS: dict[str, str] = {}
