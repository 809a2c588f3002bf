# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A run that waits for you, and survives its driver
#
# An agent analyses a workbook and writes a report. Before it publishes, it waits for a person. You will decide,
# restart the kernel in between, and kill the agent at the worst moment. Run the cells from top to bottom; it
# takes a minute.
#
# Runs live where the `onward` command keeps them (`ONWARD_HOME`, else `~/.onward`), so `onward list` in a
# terminal shows the same ones. Postgres and the ledger start by themselves.

# %%
from runs import notebook

# %% [markdown]
# ## 1. Start a run
#
# The cell lasts until the run needs you. Every line below is an event that is already committed: what you see is
# what the next process will find.

# %%
run = notebook.start(notebook.EXAMPLES / "sales.csv", "total revenue by region")

# %% [markdown]
# The agent has stopped: its process has ended, and nothing of it is held in this kernel. This is the whole state
# of the run, as it stands in the database and in the ledger:

# %%
run

# %% [markdown]
# ## 2. Look at what it proposes
#
# The report is saved and checked: every figure was computed a second time by another route. It is not published
# yet.

# %%
run.report()

# %%
run.proposal()

# %% [markdown]
# ## 3. Decide with a button, if you like
#
# Change the title or the note and press **Approve**, or send the draft back, or reject it. Without ipywidgets the
# cell prints the calls that do the same. You can also press nothing: the next part decides.

# %%
run.buttons()

# %% [markdown]
# ## 4. Restart the kernel
#
# Choose *Kernel → Restart* now, and go on with the next cell. You need nothing but the run's id, or a beginning
# of it. (If you run all cells at once, nothing is restarted, and everything works the same.)

# %% tags=["restart"]
from runs import notebook

RUN_ID = None  # write the id from above here; None takes the newest run

run = notebook.find(RUN_ID)
run.proposal()

# %% [markdown]
# ## 5. Decide in a cell
#
# Approve as it is with `run.approve()`, or with another title, note or resource, as here. Another text is a
# `run.revise("what to change")`; `run.reject("why")` ends the run without a publication. The decision is
# committed first, then a new driver goes on from the last checkpoint. (If you have pressed a button, this cell
# leaves it at that.)

# %%
if run.proposal():
    run.edit(title="Revenue by region", note="Approved in a notebook")
run

# %% [markdown]
# Deciding again is safe. The same decision changes nothing, another one is refused:

# %%
try:
    run.reject("I have changed my mind")
except notebook.Conflict as conflict:
    print(conflict)

# %% [markdown]
# ## 6. Kill the driver
#
# Now a run that is approved in advance, so that one process does everything. That process is stopped right behind
# the last check of the report. From there on it may run for two milliseconds at a time, until the ledger has
# published. Then comes SIGKILL: the report is out, and no checkpoint says so.

# %%
import signal
import time


def kill_behind_the_publication(driver, run):
    """Whether it came in time: behind the publication, and before the step was finished."""
    for event in driver.events():
        if (event.kind, event.step) == ("step_finished", "test"):
            driver.signal(signal.SIGSTOP)
            break
    while driver.alive and not run.receipts("report.publish"):
        driver.signal(signal.SIGCONT)
        time.sleep(0.002)
        driver.signal(signal.SIGSTOP)
    print(driver.kill())
    done = [(event["kind"], event["step"]) for event in run.events()]
    return bool(run.receipts("report.publish")) and ("step_finished", "deliver") not in done


second = notebook.start(notebook.EXAMPLES / "sales.csv", "total revenue by region", approve=True, drive=False)
in_time = kill_behind_the_publication(second.drive(), second)
print("Killed in between." if in_time else "The kill missed the moment: run this cell again.")

# %% [markdown]
# These are the last events of the killed driver. `step_finished` of `deliver` is not among them, so the graph will
# do that step again. The ledger has the receipt already. A naive agent would now publish a second time.

# %%
second.events().last(3)

# %%
second.receipts("report.publish")

# %% [markdown]
# ## 7. Go on
#
# Another process takes the run over under a higher epoch and repeats the unfinished step. The ledger answers with
# the receipt that it has: *receipt reused, nothing was sent*.

# %%
second.resume()

# %% [markdown]
# One effect, one receipt, two epochs. The effect is counted in the table of publications itself, not by what the
# run or the ledger's service says of it.

# %%
print(len(second.publications()), "publication")
print(len(second.receipts("report.publish")), "receipt")
print(len(second.epochs), "epochs:", second.epochs)
print("The run has", second.status)

# %% [markdown]
# ## What next
#
# * `onward demo` does the same to plain LangGraph first, where it publishes twice.
# * `uv run verify.py` does it at every moment there is, and counts with an oracle that is not the ledger.
# * `onward down` stops the local Postgres and the ledger.
# * `help(notebook)` lists what a run can tell and take.
