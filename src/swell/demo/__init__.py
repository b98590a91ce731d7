"""The main job, `swell demo`: scripts, schedule, report and picture."""
