// Package telemetry makes the spans of distort-csi: one for each CSI call that
// does something.
package telemetry
