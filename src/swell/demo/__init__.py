"""The main job, `swell demo`: scripts, schedule and report."""
