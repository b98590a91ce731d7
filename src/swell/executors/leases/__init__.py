"""How long a host runs workers without the controller, and when what they held is free. No I/O, no clock."""
