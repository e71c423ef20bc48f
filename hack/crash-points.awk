# Sums up the lines that the crash-point tests print, from the output of go test
# or its JSON form: fails on a leak, on a double use, and when a program has no
# line, because then it has shown nothing.
/crash-points: [a-z]+ (backend=[a-z]+ )?flow=/ {
  sub(/^.*crash-points:/, "crash-points:"); sub(/\\n.*$/, "")
  print
  flows[$2]++
  for (i = 3; i <= NF; i++) { split($i, kv, "="); sum[kv[1]] += kv[2] }
}
END {
  printf "crash-points: total flows=%d points=%d leaks=%d doubleUses=%d\n", \
    flows["agent"] + flows["manager"], sum["points"], sum["leaks"], sum["doubleUses"]
  if (!flows["agent"] || !flows["manager"]) {
    print "crash-points: no flow of agent or manager was run" > "/dev/stderr"
    exit 1
  }
  exit (sum["leaks"] + sum["doubleUses"] > 0)
}
