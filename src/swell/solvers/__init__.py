"""Numbers in, numbers out: allocation problems that know no job."""
