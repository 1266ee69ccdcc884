"""
Sandboxes on machines of others. What all providers share, in the order in which a run meets it:

    sandbox    what a user configures, opens and closes      provider   what a provider must be able to do
    lifecycle  who owns a machine; ledger, owner, reaping    again      what is asked once more
    pool       as many machines as wanted and allowed        bringup    a machine is known, and has its packages
    files      the user's files are in it, too
    program    batches, and what becomes of a lost machine   talk       what is said to the harness; listen, bundle
    inside/    the harness, which runs on the machine; inside/deno for TypeScript

`http`, `reading`, `connect` and `script` speak protocols that several providers have; `envd` is E2B's, `modal_sdk` and
`trailer` are Modal's. `accounts` finds the providers that there are credentials for.
"""
