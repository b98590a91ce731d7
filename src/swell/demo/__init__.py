"""The main job: real models, real promises, a cluster on one machine. Scripts, cast, report, picture."""
