"""Ways to a smaller classifier of sequences, on equal terms: in which language is a short message?"""
