// Package telemetry makes the spans of the programs: one for each thing that one
// did for an object, in the trace that the object carries. What is exported and
// where to is said by OpenTelemetry's variables; package tracing, which the kinds
// and their users need, knows nothing of it.
package telemetry
