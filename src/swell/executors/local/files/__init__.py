"""Files of jobs on their way between this machine's state folder and that of another machine."""
