"""Sizes of many takers over several steps that are coupled by what each has done so far."""
