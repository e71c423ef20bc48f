// Package telemetry makes the spans of distort-csi: one for each CSI call that
// does something. It is the only package that knows OpenTelemetry's SDK.
package telemetry
