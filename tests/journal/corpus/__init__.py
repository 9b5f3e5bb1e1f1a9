"""The corpus of stored form 1: journals that one version wrote, and that every later version reads.

graphs      the graphs of its threads
scenarios   what happened to each thread, and how it goes on
write       writes the files: `python -m tests.journal.corpus.write`
read        opens the files, and says what is in them
v1          the files, and what they say
"""
