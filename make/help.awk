# Prints the groups and targets of make files, in their order:
#   ##@ Group
#   target: needs ## [root, 6 min] description
# The brackets contain root if the target needs it, and its duration on two cores with everything built.
/^##@ / {
  print "\n" substr($0, 5)
}
/^[a-z0-9-]+:.*## / {
  target = $0; sub(/:.*/, "", target)
  text = $0; sub(/.*## /, "", text)
  root = ""; time = ""
  if (match(text, /^\[[^]]*\] /)) {
    notes = substr(text, 2, RLENGTH - 3)
    text = substr(text, RLENGTH + 1)
    if (sub(/^root,? ?/, "", notes)) root = "root"
    time = notes
  }
  printf "%-18s %-5s %-12s %s\n", target, root, time, text
}
