"""Child processes of tools: started with limits, watched by a process of their own, and ended with all they started."""
