"""Throughput profiles of models, for simulations: tables, figures of papers, a law."""
