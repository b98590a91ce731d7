"""The host process of a machine that joins (`swell node`): its terms, and how it leaves."""
