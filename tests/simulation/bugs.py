# SPDX-License-Identifier: Apache-2.0
"""Bugs to plant: whatever claims to find lost updates has to find each of them."""

from __future__ import annotations

import dataclasses

from reportclient import merge
from reportclient.cache import CachedProvider


def swap_only_the_generation(monkeypatch):
    """On a 409, take the new generation and keep the old value."""
    read = CachedProvider.read

    def wrong(self, aspect, value, generation):
        known = getattr(self.record, aspect)
        return read(self, aspect, value if known is None else known, generation)

    monkeypatch.setattr(CachedProvider, "read", wrong)


def stamp_a_listing_as_read(monkeypatch):
    """Believe that what was read once is what the generation listed stands for."""
    seen = CachedProvider.seen

    def wrong(self, summary, *, sharing=False):
        new = seen(self, summary, sharing=sharing)
        if self.record.inventory is None:
            return new
        return dataclasses.replace(
            new,
            inventory_generation=summary.generation,
            traits_generation=summary.generation,
            aggregates_generation=summary.generation,
        )

    monkeypatch.setattr(CachedProvider, "seen", wrong)


def send_the_old_set_again(monkeypatch):
    """Write what the driver made of what it was handed, whatever is there now."""
    monkeypatch.setattr(
        merge, "merge_set", lambda base, mine, theirs: theirs if mine is None else mine
    )


def move_all_aspects_along(monkeypatch):
    """After a write, believe of every aspect that it is current."""
    written = CachedProvider.written

    def wrong(self, aspect, value, guard, generation):
        new = written(self, aspect, value, guard, generation)
        return dataclasses.replace(
            new,
            inventory_generation=generation,
            traits_generation=generation,
            aggregates_generation=generation,
        )

    monkeypatch.setattr(CachedProvider, "written", wrong)


BUGS = (
    swap_only_the_generation,
    stamp_a_listing_as_read,
    send_the_old_set_again,
    move_all_aspects_along,
)
