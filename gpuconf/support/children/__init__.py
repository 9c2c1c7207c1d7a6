"""Child processes: the programs that commands start, the data they return, and how they end.

``family`` starts a command and ends every process that descends from it. ``signals`` makes sure
that this also happens when our process ends. ``run`` limits a child's time and returns its record
and output as text. ``starting`` explains why a command cannot be started.
"""
