# SPDX-License-Identifier: Apache-2.0
"""What a flush did, provider by provider."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping

from reportclient import text
from reportclient.exceptions import InventoryInUse, ReportClientError
from reportclient.plan import Plan
from reportclient.types import Aspect

__all__ = ["ProviderResult", "SyncResult"]


@dataclasses.dataclass
class ProviderResult:
    """What happened to one provider.

    :ivar created: our request created it.
    :ivar adopted: it was there already when we came to create it.
    :ivar deleted: it is gone (also when somebody else deleted it first).
    :ivar old_name: its former name, if it was renamed.
    :ivar moved: it has another parent now.
    :ivar written: the aspects that were written.
    :ivar merged: the aspects where somebody else's change was kept.
    :ivar kept: resource classes that could not be removed because they are in
        use; they stay and are tried again in the next pass.
    :ivar left_out: standard traits and classes that this Placement does not
        know.
    :ivar pending: why it could not be deleted: it has allocations or
        children. It stays, and is tried again in the next pass.
    :ivar failed: what went wrong, or ``None``.
    """

    uuid: str
    name: str
    created: bool = False
    adopted: bool = False
    deleted: bool = False
    old_name: str | None = None
    moved: bool = False
    written: set[Aspect] = dataclasses.field(default_factory=set)
    merged: set[Aspect] = dataclasses.field(default_factory=set)
    kept: InventoryInUse | None = None
    left_out: frozenset[str] = frozenset()
    pending: ReportClientError | None = None
    failed: ReportClientError | None = None

    @property
    def changed(self) -> bool:
        """Whether anything of it was written to Placement."""
        return bool(self.created or self.deleted or self.old_name or self.moved or self.written)

    def __str__(self) -> str:
        return f"{self.name} ({self.uuid}): {', '.join(self._words()) or 'unchanged'}"

    def _words(self) -> Iterator[str]:
        for word in ("created", "adopted", "deleted", "moved"):
            if getattr(self, word):
                yield word
        if self.old_name:
            yield f"renamed from {self.old_name}"
        if self.written:
            yield "wrote " + ", ".join(sorted(self.written))
        if self.merged:
            yield "merged with others' changes to " + ", ".join(sorted(self.merged))
        if self.kept:
            yield "kept in use: " + ", ".join(self.kept.resource_classes)
        if self.left_out:
            yield "unknown to this Placement: " + ", ".join(sorted(self.left_out))
        if self.pending:
            yield f"not deleted yet: {self.pending}"
        if self.failed:
            yield f"failed: {self.failed}"


@dataclasses.dataclass
class SyncResult:
    """What a whole flush (or pass) did.

    :ivar plan: the operations that it set out to do.
    :ivar providers: by UUID, every provider that anything was done to.
    :ivar requests: how many requests were sent, by kind
        (``"PUT /resource_providers/{uuid}/traits"``).
    :ivar request_ids: Placement's request ids, in the order of the answers.
    :ivar conflicts: how many writes met an outdated generation.
    :ivar redriven: how often the driver was run again after a real clash.
    :ivar seconds: how long it took, by the client's clock.
    :ivar error: of `ReportClient.report_many`: what the node's pass ended in.
    """

    plan: Plan = dataclasses.field(default_factory=Plan)
    providers: dict[str, ProviderResult] = dataclasses.field(default_factory=dict)
    requests: Mapping[str, int] = dataclasses.field(default_factory=dict)
    request_ids: tuple[str, ...] = ()
    conflicts: int = 0
    redriven: int = 0
    seconds: float = 0.0
    error: Exception | None = None
    _lock: threading.Lock = dataclasses.field(
        default_factory=threading.Lock, repr=False, compare=False
    )

    def of(self, uuid: str, name: str) -> ProviderResult:
        """The result of one provider, made on first use."""
        with self._lock:
            return self.providers.setdefault(uuid, ProviderResult(uuid, name))

    def count_conflict(self) -> None:
        """Count one write that met an outdated generation."""
        with self._lock:
            self.conflicts += 1

    def try_again(self) -> None:
        """Keep what was done, and let what stood in the way show again."""
        for provider in self.providers.values():
            provider.kept = provider.pending = provider.failed = None

    @property
    def changed(self) -> bool:
        """Whether anything was written to Placement."""
        return any(provider.changed for provider in self.providers.values())

    @property
    def failures(self) -> dict[str, ReportClientError]:
        """The providers that failed, and why."""
        return {u: p.failed for u, p in self.providers.items() if p.failed is not None}

    @property
    def complete(self) -> bool:
        """Whether Placement now holds all that the driver wants."""
        return self.error is None and not any(
            p.failed or p.pending or p.kept or p.left_out for p in self.providers.values()
        )

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __str__(self) -> str:
        by_name = sorted(self.providers.values(), key=lambda provider: provider.name)
        lines = [text.one_line(str(provider)) for provider in by_name]
        total = f"{sum(self.requests.values())} requests, {self.conflicts} conflicts"
        if self.redriven:
            total += f", the driver was run again {self.redriven} times"
        return "\n".join([*lines, total])
