"""A simulation of whole hosts that share a store. One seed determines each run.

The seed determines the requests of clients, the order of threads, the failures of services, and the
writes to the store at which a process is killed or interrupted, the disk is full or the database is
locked. The same seed gives the same run. The store is a file, or a database of a real PostgreSQL.

    schedule.py     threads of which one runs at a time; simulated time
    process.py      a store and a host
    faults.py       faults at each write
    postgresql.py   databases of a server, and connections of processes that are killed
    world.py        a model service, and tools whose side effects are counted
    clients.py      the operations of clients
    assistants.py   clients of the Assistants API, and their invariants
    native.py       clients of the native HTTP API, and the invariants of their jobs
    mutations.py    exports that are changed before they are imported
    oracle.py       invariants, computed from the rows of the store with plain SQL
    simulation.py   one run, with its checks
    checks.py       invariants at the end of a run
    minimize.py     many runs, and the smallest run that still fails

Tasks switch only while the host waits, and around writes to the store, calls and side effects of
tools. So the simulation does not find races between two instructions, and it has no power loss
and no sockets: requests are passed to the routes in the process.
"""
