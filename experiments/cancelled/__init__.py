"""Cancels at every boundary of a run. Read in this order; each file stands alone:

worlds      the two runs: a workbook's, and one whose drafts can be taken back at an API outside
case        one run that is cancelled at one boundary, in one of five ways, and then brought to its end
judging     what is wrong with it
controls    two planted defects, which have to be noticed
campaign    all of it
report      the tables and the JSON
"""
