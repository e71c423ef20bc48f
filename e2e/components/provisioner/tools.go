//go:build tools

// Package provisioner pins the sidecars that are built against Kubernetes 1.33.
package provisioner

import (
	_ "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner"
	_ "github.com/kubernetes-csi/external-resizer/cmd/csi-resizer"
)
