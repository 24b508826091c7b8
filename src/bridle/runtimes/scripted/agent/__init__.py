"""The scripted agent's own process: standard library only, no part of Bridle is imported here.

It plays a script with real tool calls and says plainly that it is scripted; there is no model.
"""
