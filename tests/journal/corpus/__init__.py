"""The corpus of stored form 1: journals that one version wrote, and that every later version reads.

graphs      the graphs of its threads
scenarios   the events of each thread, and how it continues
write       writes the files: `python -m tests.journal.corpus.write`
read        opens the files, and lists their content
v1          the files, and their expected content
"""
