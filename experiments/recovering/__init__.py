"""How fast and how correctly work goes on when its process, or its whole worker, is killed: ours and its peers.

plan       when is killed what, by a seed; the same for all
work       five steps, one effect, as every system does them; marks: what they say about themselves
graph      these five steps as a LangGraph graph
systems/   how each system is started, given work, killed and looked at
workers/   what runs in its processes, as its documentation says
place      Postgres, the sink of effects and the receiver of marks, in a temporary home
children   processes that are started here, and end with this one
case       one kill; campaign: all of them; results: figures and the verdict; report: a table
"""
