cimport cython

from swell.columns cimport Floats, FloatsOut, Flags, Ints

@cython.locals(bits=cython.longlong, overdue_share=cython.double, cost_s=cython.double, left_s=cython.double, earlier=cython.longlong)
cpdef void write_idle_times(
    double now_s, Floats since_s, Flags is_launching, Ints held, Ints earlier_pauses, Ints starts, Ints workers,
    Floats start_s, Floats resize_s, FloatsOut idle_s
)
