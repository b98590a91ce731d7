"""Styles, scripts and templates of the live page and of reports."""
