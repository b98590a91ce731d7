"""Which devices a job gets, once its size is decided."""
