"""How fast models train at each number of workers: tables of others, figures of papers, a law."""
