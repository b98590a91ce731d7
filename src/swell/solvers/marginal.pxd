cimport cython

from swell.columns cimport Flags, FloatsOut, FloatTable, IntTable, Ints, IntsOut

cdef double SAME_RETURN

cdef class _Queue:
    cdef Ints level, held, rank
    cdef IntsOut rows, to
    cdef FloatsOut less
    cdef long long num

cdef bint _steps_up(
    _Queue queue, long long row, IntTable devices, FloatTable worth, Ints num_levels, long long most, long long reach
)
cdef void _sink(_Queue queue, long long place)
@cython.locals(returns=cython.bint)
cdef bint _is_first(_Queue queue, long long row, long long other)
@cython.locals(most=cython.longlong)
cdef long long _boost(
    IntsOut level, IntTable devices, FloatTable worth, Ints num_levels, Ints held, Ints rank, long long left,
    long long own_left, Flags is_bound, IntsOut group_left, Ints group, long long reach
)
cdef (double, long long) _next_step(
    long long row, long long level, long long highest, IntTable devices, FloatTable worth, long long most
)
cdef (long long, long long) _raise(
    IntsOut level, IntTable devices, Ints rows, Ints limits, long long left, long long own_left, Flags is_bound,
    IntsOut group_left, Ints group
)
cpdef long long serve_in_order(IntsOut level, IntTable devices, Ints num_levels, Ints rows, long long left)
