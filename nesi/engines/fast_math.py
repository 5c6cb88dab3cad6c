"""exp and log for numba kernels that the compiler can vectorise.

Numba calls the C library once per element for `exp` and `log`, which would make the softmax and the log of
the weights as expensive as the matrix products. In float32 a few multiplications reach the same accuracy
(2 units in the last place) and fill the vector registers. float64 keeps the library's functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

_f32 = np.float32
_i32 = np.int32

_LOG2_E = _f32(math.log2(math.e))
# ln 2 in two parts: the first has few enough bits for n * _LN2_HIGH to be exact.
_LN2_HIGH = _f32(0.693145751953125)
_LN2_LOW = _f32(math.log(2) - 0.693145751953125)
_SMALLEST = _f32(-87.0)  # exp of less is no longer a normal number
_ONE, _HALF = _f32(1), _f32(0.5)
_E2, _E3, _E4, _E5, _E6, _E7 = (_f32(1 / math.factorial(n)) for n in range(2, 8))
# (log(1 + f) - f + f^2/2) / f^3 for f in [sqrt(1/2) - 1, sqrt(2) - 1]: least squares, in float64.
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7 = (
    _f32(coefficient)
    for coefficient in (
        0.333333282,
        -0.250008295,
        0.200014459,
        -0.166232731,
        0.141976476,
        -0.131569455,
        0.127855375,
        -0.0767086554,
    )
)
_SQRT_HALF_BITS = _i32(np.float32(math.sqrt(0.5)).view(np.int32))

# Set here, or numba takes the flags of whatever is compiled first: reordering would merge the two parts of ln 2 again.
_exact_njit = njit(fastmath={"contract", "nsz"})


@_exact_njit
def _exp32(x):  # type: ignore[no-untyped-def]
    """exp(x) = 2^n e^r with |r| <= ln(2)/2, where seven terms of the series are enough. For x <= 88."""
    bounded = max(x, _SMALLEST)
    n = np.rint(bounded * _LOG2_E)
    r = bounded - n * _LN2_HIGH - n * _LN2_LOW
    series = _ONE + r * (_ONE + r * (_E2 + r * (_E3 + r * (_E4 + r * (_E5 + r * (_E6 + r * _E7))))))
    power = _i32((_i32(n) + _i32(127)) << _i32(23)).view(np.float32)
    return series * power if x >= _SMALLEST else _f32(0)


@_exact_njit
def _log32(x):  # type: ignore[no-untyped-def]
    """log(2^n (1 + f)) = n ln 2 + f - f^2/2 + f^3 p(f) with 1 + f in [sqrt(1/2), sqrt(2)). For normal x > 0.

    No division: numba checks every one for zero, and loops with such a check are not vectorised.
    """
    bits = _f32(x).view(np.int32)
    n = (bits - _SQRT_HALF_BITS) >> _i32(23)
    f = _i32(bits - (n << _i32(23))).view(np.float32) - _ONE
    f2 = f * f
    low, high = (_L0 + _L1 * f) + f2 * (_L2 + _L3 * f), (_L4 + _L5 * f) + f2 * (_L6 + _L7 * f)
    series = f2 * (f * (low + f2 * f2 * high) - _HALF)
    return _f32(n) * _LN2_HIGH + (f + (_f32(n) * _LN2_LOW + series))


def exp(x: Any) -> Any:
    """Stand-in for interpreted code; compiled code gets the overload below."""
    return np.exp(x)


def log(x: Any) -> Any:
    return np.log(x)


@overload(exp)
def _overload_exp(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return lambda x: _exp32(x)
    return lambda x: np.exp(x)


@overload(log)
def _overload_log(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return lambda x: _log32(x)
    return lambda x: np.log(x)
