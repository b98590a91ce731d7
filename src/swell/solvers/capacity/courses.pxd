cimport cython

from swell.columns cimport FlagsOut, Floats, FloatsOut, FloatTable, FloatTableOut, Ints, IntsOut, IntTable, IntTableOut
from swell.solvers.capacity cimport segments
from swell.solvers.capacity.segments cimport Segments

cdef double INF, SAME_TIME_S, SPARE_S, TOLERANCE_SHARE
cdef long long MOST_RUNS, MOST_SEGMENTS

cdef class Room:
    cdef FloatsOut starts_s, plan_starts_s
    cdef IntsOut fits, plan_levels
    cdef FloatTableOut before, after
    cdef IntTableOut came_from, goes_to
    cdef long long num_levels
    cdef void make(self, long long num_runs)

cdef class TakerRows:
    cdef IntTable devices
    cdef FloatTable rates, start_s, resize_s, work
    cdef Ints num_levels
    cdef IntsOut held
    cdef FloatsOut idle_s
    cdef FlagsOut is_bound
    cdef Floats until_s
    cdef object columns
    cdef Room room
    cdef TakerRows believed

cdef class PlanRows:
    cdef IntsOut grade, num, now, top
    cdef FloatTableOut starts_s
    cdef IntTableOut levels
    cdef FloatsOut end_s, change_s

cpdef TakerRows rows_of(object takers)
cdef TakerRows as_believed(TakerRows takers)
cdef double cost_s(TakerRows takers, long long row, long long before, long long level)
cdef double lost(long long before, long long level)
@cython.locals(pause_s=cython.double, done=cython.double, waited_s=cython.double, has_run=cython.bint)
cdef double done_s(TakerRows takers, PlanRows plans, long long row, double work, double until_s)
cdef double spare_of(TakerRows takers, long long row)
cdef bint holds(TakerRows takers, PlanRows plans, long long row, double work, double spare)
cdef bint end_later(TakerRows takers, PlanRows plans, long long row, double work, double spare)
cdef bint _ends_by(TakerRows takers, PlanRows plans, long long row, double work, double spare, double until_s)
cdef bint step_sooner(TakerRows takers, PlanRows plans, long long row, double work, double spare)
cdef void finish(TakerRows takers, PlanRows plans, long long row)
cdef bint append(PlanRows plans, long long row, double start_s, long long level)
cdef bint is_free(Segments profile, TakerRows takers, PlanRows plans, long long row)
cdef void take(Segments profile, TakerRows takers, PlanRows plans, long long row, long long sign)
cpdef void write_plans(
    double now_s, Ints rows, PlanRows plans, IntTable workers, FloatTableOut starts_s, IntTableOut sizes
)
cpdef void read_plans(
    double now_s, Ints rows, Ints grade, Ints segments, FloatTable starts_s, IntTable sizes, Floats ends_s,
    IntTable workers, Ints num_levels, PlanRows plans
)
