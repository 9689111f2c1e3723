"""The paper's second task: questions about a text, answered by a span of it. BiDAF on SQuAD v1.1."""
