// Package api is the contract between distort-manager, distort-agent and
// distort-csi: the kinds of the API group storage.distort.io and the small pure
// helpers by which each program derives the same names and sizes.
//
// It requires k8s.io/apimachinery and nothing else.
package api
