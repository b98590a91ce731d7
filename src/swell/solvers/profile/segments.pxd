cimport cython

from swell.columns cimport FlagsOut, Floats, FloatTableOut, IntTableOut, Ints, IntsOut

cdef double INF
cdef long long STRETCH_ROOM

cdef class Blocks:
    cdef FloatTableOut starts_s
    cdef IntTableOut free
    cdef IntsOut used, least, most, order, num_blocks

cdef long long width_of(Blocks profile)
cdef bint has_room(Blocks profile, long long num_more)
cpdef long long take_now(Blocks profile, Ints num_devices, Floats until_s)
@cython.locals(are_free_now=cython.bint)
cpdef long long take_what_is_free(Blocks profile, Ints num_devices, Floats until_s, FlagsOut is_free)
cdef bint are_free(Blocks profile, double start_s, double end_s, long long num)
cdef void take_between(Blocks profile, double start_s, double end_s, long long num)
cpdef void write_least(Blocks first, Blocks second, Blocks least)
cdef double end_of(Blocks profile, long long position, long long segment)
cdef (long long, long long) _following(Blocks profile, long long position, long long segment)
cdef (long long, long long) _locate(Blocks profile, double at_s)
cdef void _split(Blocks profile, double at_s)
cdef void _halve(Blocks profile, long long position)
@cython.locals(least=cython.longlong, most=cython.longlong)
cdef void _sum_up(Blocks profile, long long block)
