"""The special-function unit (MUFU): record what a GPU returns, and solve for the unit's coefficient tables.

``record`` runs on a GPU machine, ``solve`` and ``verify`` anywhere; ``forms`` lists the PTX instructions, ``codec``
defines the two compact formats a recording uses (smooth sweeps and block hashes).
"""
