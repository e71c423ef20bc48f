// Package kubectl is the command line of kubectl-distort: what a person asks of
// DISTORT, with that person's kubeconfig and rights. It only reads.
package kubectl
