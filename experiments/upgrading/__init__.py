"""The upgrade drill: a workflow version is released while runs wait for a person, and then the old one is taken out.

Read in this order: second (what the new version is), releases (trees of the source with the versions that they serve),
workers (`onward worker` of a release), drill (what happens, in order), control (what plain LangGraph does), results.
"""
