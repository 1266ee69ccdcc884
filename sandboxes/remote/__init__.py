"""
Sandboxes on providers' machines. What all providers share, in the order in which a run uses it:

    sandbox    what a user configures, opens and closes      provider   what a provider must be able to do
    lifecycle  who owns a machine; ledger, reaper            retry      what is asked once more
    pool       as many machines as wanted and allowed        provision  a machine is known, and has its packages
    upload     the user's files are in it, too
    program    batches, and what becomes of a lost machine   agent_protocol  what is said to the agent; stream
    runtime    what runs a script there: Python or Deno

The agent is `guest.machine`, and runs on the machine.

`http` is for all providers that speak HTTP; `e2b`, `modal`, `daytona` and `vercel` are the providers.
`credentials` finds those that there are credentials for.
"""
