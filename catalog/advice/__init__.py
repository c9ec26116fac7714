"""Suggestions for valid definitions: how to help models choose a tool well and call it correctly.

Nothing here rejects, and nothing runs queries. A suggestion is a code with its parameters; `str()` makes the sentence
in the language of the reader. Definitions may be in English or Chinese. No rule is silent because a list of verbs
happens to contain the right one: the rules look at words of grammar ("when", "the", 当, 该), at the schema, and at
annotations that contradict the name.
"""
