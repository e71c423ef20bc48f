// Package explain says why a volume does not work: it walks from the claim to
// the mount and stops at the first boundary that is not passed.
//
// It judges objects alone and reads nothing, so that whoever has the objects can
// ask: kubectl-distort has them from the API server (package gather), tests make
// them. What could not be read is said, and never taken for absent.
package explain
