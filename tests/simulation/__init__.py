"""A simulation of whole hosts that share a store, in which one seed decides everything.

The seed decides what clients send, which thread runs next, how services fail, and at which write to
the store a process is killed or interrupted, or finds the disk full or the file locked. The same
seed gives the same run.

    schedule.py     threads of which one runs at a time; simulated time
    process.py      a store and a host, with faults at each write
    world.py        a model service, and tools whose side effects are counted
    clients.py      the operations of clients
    mutations.py    exports that are changed before they are imported
    oracle.py       what must hold, computed from the rows of the store with plain SQL
    simulation.py   one run, with its checks
    checks.py       what must hold at the end of a run
    minimize.py     many runs, and the smallest run that still fails

Tasks switch only where the host waits, and around writes to the store, calls and side effects of
tools. So the simulation does not find races between two instructions, and it has no power loss,
no PostgreSQL and no HTTP.
"""
