"""A module to preload, which notes whether garbage is looked for while it is imported."""

import gc

WAS_COLLECTING = gc.isenabled()
