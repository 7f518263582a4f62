# SPDX-License-Identifier: MIT
# docs/gpu_evidence.md with what a run showed: in the last column of its rows, and as a table at its end. With is_table
# the table alone. Variables and environment as in json.awk.
function member(name, text) {
  text = ENVIRON["device"]
  if (!sub(".*\"" name "\": \"?", "", text)) return ""
  sub("[\",}].*", "", text)
  return text
}
# Of the names in backticks, those that this run knows: passed only if all did. "": it knows none, or skipped all.
function judge(cell, part, n, i, key, passed, skipped) {
  n = split(cell, part, "`")
  for (i = 2; i <= n; i += 2) {
    key = part[i]
    if (!(key in outcome)) continue
    if (outcome[key] == "failed" || outcome[key] == "not finished") return outcome[key] " (" key ")"
    if (outcome[key] == "passed") passed++
    if (outcome[key] == "skipped") skipped++
  }
  if (!passed) return ""
  return "passed" (skipped ? ", but for " skipped " that it skipped" : "")
}
function write_table() {
  print "### " ENVIRON["when"] ", " name
  print ""
  printf "Compute capability %s, %s MiB, CUDA %s%s, cuBLAS %s; commit %s; %s s in all.\n\n", member("compute_capability"),
    member("memory_mib"), member("cuda"), ENVIRON["release"] ? " (release " ENVIRON["release"] ")" : "",
    member("cublas") == "true" ? "found" : "not found", ENVIRON["commit"], ENVIRON["took"]
  if (ENVIRON["simulated"]) print "Simulated: this shows nothing of a real device, and no time here means anything.\n"
  print "| stage | outcome | passed | failed | skipped | seconds | remark |"
  print "|---|---|---|---|---|---|---|"
  while ((getline <rows) > 0) {
    gsub(/\|/, "\\|", $7)
    printf "| %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6, $7
  }
  close(rows)
  while ((getline <cases) > 0) {
    if ($3 != "skipped") continue
    if (!($4 in left_out)) reason[++reasons] = $4
    left_out[$4] = left_out[$4] (left_out[$4] ? ", " : "") "`" $1 ": " $2 "`"
  }
  close(cases)
  if (reasons) print "\nSkipped:\n"
  for (i = 1; i <= reasons; i++) printf "- %s: %s\n", reason[i] ? reason[i] : "no reason given", left_out[reason[i]]
}
BEGIN {
  name = member("name")
  while ((getline <rows) > 0) outcome[$1] = $2
  close(rows)
  while ((getline <cases) > 0) outcome[$1 ": " $2] = $3
  close(cases)
}
/^None so far\.$/ && !is_table { next }
# | what | shown by | on a real device |
/^\|.*`.*\|$/ {
  n = split($0, cell, / *\| */)
  said = judge(cell[3])
  if (said) {
    said = ENVIRON["when"] ", " name ": " said
    $0 = "| " cell[2] " | " cell[3] " | " (cell[4] == "not yet" ? said : cell[4] "; " said) " |"
  }
}
{ print }
END {
  if (!is_table) print ""
  write_table()
}
