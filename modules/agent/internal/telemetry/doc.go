// Package telemetry makes the spans of distort-agent: one for each thing that
// it did for an object, in the trace that the object carries. It is the only
// package that knows OpenTelemetry's SDK.
package telemetry
