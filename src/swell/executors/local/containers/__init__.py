"""Jobs that run in containers of their own, by Docker, Podman or Apptainer."""
