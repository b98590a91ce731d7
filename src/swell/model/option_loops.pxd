cimport cython

from swell.columns cimport Floats, FloatTableOut, Ints, IntsOut

@cython.locals(least_times=cython.double, is_useful=cython.bint)
cpdef void list_useful(
    Ints starts, Ints ends, Ints sizes, Ints size_devices, Floats rate_per_s, long long[:, :, :] table,
    FloatTableOut rates, IntsOut num
)
cpdef void find(Ints starts, Ints sizes, Ints workers, IntsOut chosen)
