"""What goes over the wire, by subject: the types that check every request and describe every answer.

The OpenAPI document is made from these same types. A member that is ``UNSET`` is left out of an answer.
"""
