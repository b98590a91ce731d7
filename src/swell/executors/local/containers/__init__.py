"""Jobs that run in containers of their own, by Docker or Podman."""
