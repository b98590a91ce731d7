# What columns (`swell.arrays`) are where Cython compiles their users. Names that end in Out are written, too.
ctypedef const long long[:] Ints
ctypedef const long long[:, :] IntTable
ctypedef const double[:] Floats
ctypedef const double[:, :] FloatTable
ctypedef const unsigned char[:] Flags
ctypedef long long[:] IntsOut
ctypedef long long[:, :] IntTableOut
ctypedef double[:] FloatsOut
ctypedef double[:, :] FloatTableOut
ctypedef unsigned char[:] FlagsOut
