// Package alerts tests the alert rules of the chart with promtool, as Prometheus
// evaluates them. `make chart-test` runs the tests; elsewhere they are skipped,
// because promtool is a tool of the repository and the rules lie outside of the
// module.
package alerts
