# SPDX-License-Identifier: Apache-2.0
"""Why a target is missed, where it is. Shown only then."""

_PARALLEL = (
    "The requests are fewer, or side by side, but clients, Placement and database share two "
    "CPUs: the time is that of Placement's own work, and the floor does hardly better. Other "
    "runs on the same machine, as busy as it was then, had 2.0 to 3.0 for the first report."
)
_REST = (
    "One or two requests are little to hide behind. Ours adds some 0.7 ms for a tree of nine: "
    "the driver's own edits, the check and the plan of the tree, the merge, and the account of "
    "the call; the largest of these is a fifth."
)

REASONS: dict[str, str] = {
    "time": (
        "The time depends on what else the machine did in the few milliseconds that a pass of "
        "ours takes."
    ),
    "first host": _PARALLEL,
    "first large": _PARALLEL,
    "restart": _PARALLEL,
    "cpu": "The driver's own pass is part of it, on both sides.",
    "memory": (
        "A root of its own costs ours an index of its own: three small dictionaries for the "
        "snapshot that is handed out without copying, and one for the tree. nova has one index "
        "for all, and copies what it hands out."
    ),
    "floor host one inventory changed wall": _REST,
    "floor host one inventory changed cpu": _REST,
    "floor host refresh due cpu": _REST,
    "floor 1,000 nodes first report cpu": (
        "Most of a request's CPU is keystoneauth's and requests' (proxies from the environment, "
        "netrc, headers), in both. On top of it ours adds 0.15 ms a request (in one thread, "
        "against canned answers; more in eight threads on a busy machine), and no single "
        "thing is more than a tenth of that: checking the answer, the merge, the records of "
        "cache and result, the log line, the plan."
    ),
    "floor 1,000 nodes refresh due wall": "",
    "floor 1,000 nodes refresh due cpu": (
        "The floor reads one listing and stops. Ours judges 1,000 trees by it (some 40 us "
        "each: generations compared, the cache stamped) and runs the driver for every node "
        "and compares what it made of the tree (some 20 us)."
    ),
}
REASONS["floor 1,000 nodes refresh due wall"] = REASONS["floor 1,000 nodes refresh due cpu"]
