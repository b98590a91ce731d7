"""Processes and folders of users of this machine: the helper process of root, and who may ask it."""
