"""How a worker process ended, as a number."""

#: In place of an exit code, or of minus a signal: there never was a process.
NOT_STARTED = -1000
#: In place of minus SIGKILL: the kernel ended it, because of its job's memory limit.
OVER_MEMORY = -1001
#: Likewise: because its machine, or what is allotted to Swell there, had no memory left.
OUT_OF_MEMORY = -1005
#: Likewise: its host ended it, because a signal had stopped it.
STOPPED = -1006
#: In place of either: there never was one, because of what its job asks for. Another try would end the same.
UNFIT = -1002
#: Likewise: nothing is known of it any more, because its host is gone.
HOST_LOST = -1003
