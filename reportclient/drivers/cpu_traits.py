# SPDX-License-Identifier: Apache-2.0
"""From CPU flags, as Linux names them, to traits, as os-traits names them."""

from __future__ import annotations

from collections.abc import Iterable

import os_traits

__all__ = ["OWN_PREFIXES", "cpu_traits"]

#: The families of traits that say what the CPU is; what is in them and not
#: true of the machine is taken away.
OWN_PREFIXES = ("HW_CPU_", "HW_ARCH_", "COMPUTE_ARCH_", "HW_NUMA_")

#: Flags whose trait is not simply the flag in capitals.
_IRREGULAR = {
    "X86": {
        "aes": ("AESNI",),
        "pni": ("SSE3",),
        "fma": ("FMA3",),
        "sse4_1": ("SSE41",),
        "sse4_2": ("SSE42",),
        "bmi1": ("BMI",),
        "pclmulqdq": ("CLMUL",),
        "sha_ni": ("SHA",),
        "rtm": ("TSX",),
        "vmx": ("VMX", "INTEL_VMX"),
        "svm": ("SVM", "AMD_SVM"),
        "sev": ("AMD_SEV",),
        "sev_es": ("AMD_SEV_ES",),
        "sev_snp": ("AMD_SEV_SNP",),
        "gfni": ("AVX512GFNI",),
        "vaes": ("AVX512VAES",),
        "vpclmulqdq": ("AVX512VPCLMULQDQ",),
        "avx512_vbmi": ("AVX512VBMI",),
        "avx512vbmi": ("AVX512VBMI",),
        "amx_bf16": ("AMXBF16",),
        "amx_int8": ("AMXINT8",),
        "amx_tile": ("AMXTILE",),
        "pcid": ("INTEL_PCID",),
        "md_clear": ("INTEL_MD_CLEAR",),
        "spec_ctrl": ("INTEL_SPEC_CTRL",),
        "ibpb": ("AMD_IBPB",),
        "virt_ssbd": ("AMD_VIRT_SSBD",),
    },
    "AARCH64": {},
}
#: Of two families, these mean something only together with AVX-512.
_NEED_AVX512 = {"AVX512GFNI", "AVX512VAES", "AVX512VPCLMULQDQ"}


def cpu_traits(
    architecture: str, flags: Iterable[str], threads_per_core: int = 1
) -> frozenset[str]:
    """The traits of a CPU, as far as os-traits has names for them.

    :param architecture: as ``uname -m`` says.
    :param flags: flags or features, as ``/proc/cpuinfo`` has them.
    """
    known = frozenset(os_traits.get_traits())
    machine = architecture.upper()
    family = {"X86_64": "X86", "I686": "X86"}.get(machine, machine)
    irregular = _IRREGULAR.get(family, {})
    flags = frozenset(flags)
    names: set[str] = set()
    for flag in flags:
        plain = flag.upper()
        # Linux writes avx512_vnni where it once wrote avx512bw.
        names.update(irregular.get(flag, (plain, plain.replace("AVX512_", "AVX512"))))
    if not any(flag.startswith("avx512") for flag in flags):
        names -= _NEED_AVX512
    traits = {f"HW_CPU_{family}_{name}" for name in names}
    traits |= {f"HW_ARCH_{machine}", f"COMPUTE_ARCH_{machine}"}
    if threads_per_core > 1:
        traits.add(os_traits.HW_CPU_HYPERTHREADING)
    return frozenset(traits & known)
