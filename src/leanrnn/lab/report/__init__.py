"""``leanrnn report``: what happened in runs, as one page that opens anywhere; needs the extra ``report``."""
