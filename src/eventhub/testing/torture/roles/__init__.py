"""The processes of a torture run, one module a role: ``main(arguments)`` is the whole life of one."""
