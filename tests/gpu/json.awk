# SPDX-License-Identifier: MIT
# A run as JSON. Variables: the files rows, cases (lines of tabs), bench, pytorch (JSON, or absent). Environment: device
# (JSON), when, commit, release, took, simulated.
function quote(text) {
  gsub(/\\/, "\\\\", text)
  gsub(/"/, "\\\"", text)
  gsub(/[[:cntrl:]]/, " ", text)
  return "\"" text "\""
}
function number(text) { return text == "" ? "null" : text }
function splice(name, file, line, has_text) {
  printf ",\n\"%s\": ", name
  while ((getline line <file) > 0) {
    print line
    has_text = 1
  }
  if (!has_text) print "null"
}
BEGIN {
  printf "{\"device\": %s,\n\"simulated\": %s,\n\"release\": %s,\n\"date\": %s,\n\"commit\": %s,\n\"seconds\": %s,\n\"stages\": [",
    ENVIRON["device"], ENVIRON["simulated"] ? "true" : "false", quote(ENVIRON["release"]), quote(ENVIRON["when"]),
    quote(ENVIRON["commit"]), ENVIRON["took"]
  while ((getline <rows) > 0)
    printf "%s\n  {\"stage\": %s, \"outcome\": %s, \"passed\": %s, \"failed\": %s, \"skipped\": %s, \"seconds\": %s, \"remark\": %s}",
      n++ ? "," : "", quote($1), quote($2), number($3), number($4), number($5), number($6), quote($7)
  printf "],\n\"cases\": ["
  n = 0
  while ((getline <cases) > 0)
    printf "%s\n  {\"program\": %s, \"case\": %s, \"outcome\": %s, \"reason\": %s}", n++ ? "," : "", quote($1),
      quote($2), quote($3), quote($4)
  printf "]"
  splice("bench", bench)
  splice("pytorch", pytorch)
  print "}"
}
