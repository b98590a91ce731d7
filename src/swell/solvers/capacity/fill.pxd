cimport cython

from swell.columns cimport Flags, FlagsOut, Floats, FloatsOut, Ints, IntsOut
from swell.solvers.capacity cimport courses, one_plan, segments
from swell.solvers.capacity.courses cimport PlanRows, TakerRows
from swell.solvers.capacity.segments cimport Segments

cdef double INF, MOMENT_S
cdef long long AS_BELIEVED, AS_PLANNED, BROKEN, FEWEST_TOGETHER, JUST, MARGIN, MOST_SEGMENTS, NO_GROUP

cdef class GroupRows:
    cdef list free
    cdef Segments least
    cdef Ints group
    cdef Flags is_exempt
    cdef long long known

@cython.locals(seconds_s=FloatsOut, ends_s=FloatsOut, is_sound=FlagsOut)
cpdef long long fill_in_order(
    Segments profile, GroupRows groups, TakerRows takers, PlanRows plans, Ints rows, Ints how, Ints worst,
    bint is_late_served
)
cdef long long _group_of(GroupRows groups, long long row)
cdef bint _is_exempt(GroupRows groups, long long row)
cdef bint _serve(
    Segments profile, GroupRows groups, TakerRows takers, PlanRows plans, long long row, long long how, long long worst,
    bint is_late_served
)
cdef bint _take_of(
    Segments profile, TakerRows takers, PlanRows plans, long long row, long long how, long long worst, bint is_late_served
)
cdef void _hurry(Segments profile, TakerRows takers, PlanRows plans, long long row)
cdef Segments _of_group(GroupRows groups, long long number)
cdef bint _stays(Segments profile, Segments own, TakerRows takers, PlanRows plans, long long row)
cdef void _take_as_planned(Segments profile, TakerRows takers, PlanRows plans, long long row)
cdef void _mark_sound(
    TakerRows takers, PlanRows plans, Ints rows, Ints how, FloatsOut seconds_s, FloatsOut ends_s, FlagsOut is_sound
)
@cython.locals(is_held=cython.bint)
cdef bint _is_sound(TakerRows takers, PlanRows plans, long long row)
cdef long long _write_changes(
    TakerRows takers, PlanRows plans, Ints rows, FloatsOut at_s, IntsOut net, IntsOut gross
)
@cython.locals(start_s=cython.double, change=cython.longlong, taken=cython.longlong, more=cython.longlong)
cdef bint _take_changes(Segments profile, Floats at_s, Ints net, Ints gross, Segments changed)
@cython.locals(changed=Segments)
cdef bint _take_together(Segments profile, TakerRows takers, PlanRows plans, Ints rows)
cpdef void pay_in_order(
    Segments profile, TakerRows takers, PlanRows plans, PlanRows others, Ints rows, Ints levels, FlagsOut is_paid
)
cpdef void take_beyond(Segments profile, TakerRows takers, PlanRows plans, PlanRows others, Ints rows)
@cython.locals(is_paid=cython.bint)
cdef bint _could_pay(
    Segments profile, TakerRows takers, PlanRows plans, PlanRows others, long long row, long long level, double pause_s
)
cdef void _copy(PlanRows plans, PlanRows source, long long row)
cdef bint _is_within(PlanRows plans, PlanRows wider, long long row)
cdef void _take_beyond(Segments profile, TakerRows takers, PlanRows plans, PlanRows taken, long long row)
