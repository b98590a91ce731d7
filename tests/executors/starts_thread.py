"""A module that must not be preloaded."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
