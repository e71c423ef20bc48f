// Package apiserver proves with a real kube-apiserver what the kinds of
// storage.distort.io accept, what they refuse and with which words.
//
// It holds tests alone. KUBEBUILDER_ASSETS must name a directory with
// kube-apiserver and etcd; make test sets it.
package apiserver
