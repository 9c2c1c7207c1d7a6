"""Children: the programs that commands start, what they hand over, and their end.

``family`` starts a command and ends every process that came from it; ``signals`` makes sure that
our own end does so too; ``run`` bounds a child in time and returns its record and output as text;
``starting`` says why a command cannot be started; ``passthrough`` passes a program's output on to
our own streams.
"""
