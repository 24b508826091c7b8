"""The wire protocols the scripted model speaks, one file each."""
