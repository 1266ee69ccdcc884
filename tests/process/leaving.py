"""Calls that leave behind what later ones must not be blamed for."""

LEAVES = """
import os, threading, time
def evaluate(x):
    if x == "copies":
        if os.fork() == 0: raise ValueError("in the copy alone")
        os.wait()
    if x == "kills later": threading.Timer(0.1, os._exit, (3,)).start()
    if x == "waits": time.sleep(0.3)
    return x
"""
LEAVING = ["copies", "a", "kills later", "waits", "b"]
