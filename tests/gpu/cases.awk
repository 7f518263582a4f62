# SPDX-License-Identifier: MIT
# What a test program printed, as lines of tabs: program, test, outcome, reason. Between the beginning and the end of a
# test stand those of its children, which do not count by themselves. A test that came to no end has failed.
{ name = substr($0, 14) }
/^\[ RUN      \] / && running == "" {
  order[++count] = running = name
  outcome[name] = "failed"
  why = ""
}
/^skipped: / { why = substr($0, 10) }
/^\[       OK \] / && name == running { outcome[name] = "passed" }
/^\[  SKIPPED \] / && name == running {
  outcome[name] = "skipped"
  reason[name] = why
}
/^\[ (      OK| FAILED | SKIPPED) \] / && name == running { running = "" }
END { for (i = 1; i <= count; i++) print program "\t" order[i] "\t" outcome[order[i]] "\t" reason[order[i]] }
