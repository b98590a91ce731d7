"""The seam between the controller and the machines: typed messages, and what takes them."""
