"""Makes no step, for ever. A signal that comes just before `signal.pause` would not be noticed in it."""

import time

print("idle", flush=True)
while True:
    time.sleep(0.01)
