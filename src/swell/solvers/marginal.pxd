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
@cython.locals(
    own_left=cython.longlong, is_bound=Flags, group_left=IntsOut, group=Ints, queue=_Queue, most=cython.longlong
)
cpdef tuple boost(
    IntsOut level, IntTable devices, FloatTable worth, Ints num_levels, Ints held, Ints rank, long long left,
    own=*, groups=*, long long reach=*
)
cdef (double, long long) _next_step(
    long long row, long long level, long long highest, IntTable devices, FloatTable worth, long long most
)
@cython.locals(
    ordered=Ints, limits=Ints, own_left=cython.longlong, is_bound=Flags, group_left=IntsOut, group=Ints,
    row=cython.longlong, current=cython.longlong, more=cython.longlong
)
cpdef (long long, long long) raise_within(
    IntsOut level, IntTable devices, num_levels, rows, most, long long left, own, groups=*
)
cpdef long long serve_in_order(IntsOut level, IntTable devices, Ints num_levels, Ints rows, long long left)
