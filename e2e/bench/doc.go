// Package bench measures what the control plane costs (design.md §9): CreateVolume,
// ControllerPublishVolume, ControllerUnpublishVolume and DeleteVolume of the three
// programs against a real kube-apiserver and etcd, with storage that answers at once
// (modules/agent/internal/instant).
//
// In the same run, in turns, it measures two floors: the same writes of the same
// objects by parties that do nothing else, woken by watches, and the same with a caller
// that looks each second, as other drivers do. What counts are the ratios: times are
// those of the machine.
//
// `make bench` writes docs/performance.md. Without -measure the package tests nothing.
package bench
