"""Sums of float64 without rounding: integers in 66 limbs of 32 bits, which together span all exponents there are.

Limb i counts in units of 2^(32 i - 1075). Limbs are signed and have 31 bits to spare, so they are added without a
thought for carries, in any order, to the same sum.
"""

from numpy import int64, uint64

from hardwood._kernels.compiling import kernel

LIMBS = 66


@kernel(about="exact sums", seconds=0.2)
def add_to(bits, limbs):
    """Add numbers, at most 2^30 of them, given by their bits, to a sum."""
    low_half = uint64(0xFFFFFFFF)
    for k in range(bits.shape[0]):
        whole = bits[k]
        exponent = (whole >> uint64(52)) & uint64(0x7FF)
        digits = whole & uint64(0xFFFFFFFFFFFFF)
        if exponent > uint64(0):
            digits |= uint64(1) << uint64(52)
        else:
            exponent = uint64(1)
        at, shift = exponent >> uint64(5), exponent & uint64(31)
        low, high = (digits & low_half) << shift, (digits >> uint64(32)) << shift
        sign = int64(1) - int64(whole >> uint64(63)) * int64(2)
        limbs[at] += sign * int64(low & low_half)
        limbs[at + uint64(1)] += sign * (int64(low >> uint64(32)) + int64(high & low_half))
        limbs[at + uint64(2)] += sign * int64(high >> uint64(32))
    for limb in range(LIMBS - 1):
        limbs[limb + 1] += limbs[limb] >> int64(32)
        limbs[limb] &= int64(0xFFFFFFFF)
