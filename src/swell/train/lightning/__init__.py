"""Lightning in a Swell job."""
