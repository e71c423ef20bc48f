// Package chart tests the Helm chart as its users meet it: by the helm program,
// against a real API server. `make chart-test` runs the tests; elsewhere they are
// skipped, because the chart lies outside of the module and `go test` would not
// notice that it changed.
package chart
