cimport cython

from swell.columns cimport FlagsOut, Floats, FloatsOut, Ints, IntsOut

cdef double INF

cdef class Segments:
    cdef public FloatsOut starts_s
    cdef public IntsOut free
    cdef public long long num

cdef double end_of(Segments profile, long long place)
cdef void make_room(Segments profile, long long num)
cpdef void take_now(Segments profile, Ints num_devices, Floats until_s)
@cython.locals(are_free_now=cython.bint)
cpdef void take_what_is_free(Segments profile, Ints num_devices, Floats until_s, FlagsOut is_free)
cdef bint are_free(Segments profile, double start_s, double end_s, long long num)
cdef void take_between(Segments profile, double start_s, double end_s, long long num)
@cython.locals(at_s=cython.double, place=cython.longlong, other=cython.longlong)
cpdef void write_least(Segments first, Segments second, Segments least)
@cython.locals(low=cython.longlong, high=cython.longlong)
cdef long long _locate(Segments profile, double at_s)
cdef long long _split(Segments profile, double at_s)
