cimport cython

from swell.columns cimport FloatsOut, IntsOut
from swell.solvers.capacity cimport courses
from swell.solvers.capacity.courses cimport PlanRows, Room, TakerRows
from swell.solvers.capacity.segments cimport Segments

cdef double FAR_S, INF, SAME_TIME_S, TOLERANCE_SHARE
cdef long long AS_BELIEVED, AS_PLANNED, BROKEN, EARLY, JUST, MARGIN, MOST_RUNS, MOST_SEGMENTS, NONE, TOO_RAGGED, FOUND

@cython.locals(may_keep=cython.bint)
cdef long long plan_one(Segments profile, TakerRows takers, PlanRows plans, long long row, long long how, long long worst)
cdef bint _keeps(Segments profile, TakerRows takers, PlanRows plans, long long row, double work, double spare)
cdef bint _mend(Segments profile, TakerRows takers, PlanRows plans, long long row, double work, double spare)
cdef bint plan_late(Segments profile, TakerRows takers, PlanRows plans, long long row, double work)
cdef bint is_within_reach(Segments profile, TakerRows takers, long long row, double work)
cdef long long _runs_of(Segments profile, TakerRows takers, long long row, long long level)
@cython.locals(most=cython.double)
cdef double _most(TakerRows takers, long long row, long long num)
cdef long long _plan_up_to(TakerRows takers, PlanRows plans, long long row, long long level, double work, long long num)
cdef void _enter(TakerRows takers, long long row, long long level, long long run)
cdef void _leave(TakerRows takers, long long row, long long run, long long num)
@cython.locals(most=cython.double)
cdef (double, long long, long long) _latest_cut(
    TakerRows takers, long long row, long long level, long long run, long long num, double work
)
@cython.locals(levels=IntsOut)
cdef bint _write(
    TakerRows takers, PlanRows plans, long long row, double work, long long run, long long num, double cut_s,
    long long low, long long high
)
@cython.locals(done=cython.double)
cdef bint plan_early(
    Segments profile, TakerRows takers, PlanRows plans, long long row, double work, double until_s
)
cdef long long _fit_of_start(TakerRows takers, long long row, long long run, long long num)
@cython.locals(is_better=cython.bint)
cdef long long _worth_most(
    TakerRows takers, long long row, long long level, long long fit, double length_s, double pause_s, double left
)
cdef long long _write_runs(Segments profile, TakerRows takers, long long row, long long num_levels, double until_s)
@cython.locals(losses=FloatsOut, best=cython.longlong)
cdef long long _coarsen(TakerRows takers, long long row, double until_s, long long num, long long most)
cdef double _loss(TakerRows takers, long long row, double until_s, long long num, long long run)
cdef long long _bind(TakerRows takers, long long row, long long num)
