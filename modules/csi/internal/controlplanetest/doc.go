// Package controlplanetest is a control plane for tests: a real API server with
// DISTORT's kinds, and a Stub that plays distort-manager and distort-agent over
// it. The stub places, exports, grants, revokes and deletes as they do, and can
// be told to hesitate or refuse.
package controlplanetest
