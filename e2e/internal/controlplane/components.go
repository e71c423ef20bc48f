package controlplane

import (
	"fmt"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/layout"
)

// Component is a program of the control plane.
type Component struct {
	// Name is that of the program.
	Name string
	Args []string
}

// Names of the components.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	// SnapshotController runs where a suite asks for VolumeSnapshots.
	SnapshotController = "snapshot-controller"
)

// Names returns the components, in the order they start, with those that only some
// labs have.
func Names() []string {
	return []string{Etcd, APIServer, ControllerManager, Scheduler, SnapshotController}
}

const (
	etcdURL     = "http://127.0.0.1:2379"
	etcdPeerURL = "http://127.0.0.1:2380"
)

// storage are etcd and the API server. etcd does not sync: its data need not
// survive the machine.
func storage(c *Credentials, dataDir string) []Component {
	return []Component{
		{Name: Etcd, Args: []string{
			"--data-dir=" + dataDir, "--unsafe-no-fsync",
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL, "--listen-peer-urls=" + etcdPeerURL,
		}},
		{Name: APIServer, Args: []string{
			"--etcd-servers=" + etcdURL,
			"--bind-address=" + layout.HostAddress, fmt.Sprintf("--secure-port=%d", layout.APIPort), "--advertise-address=" + layout.HostAddress,
			"--service-cluster-ip-range=" + layout.ServiceCIDR,
			"--tls-cert-file=" + c.path(fileServerCert), "--tls-private-key-file=" + c.path(fileServerKey),
			"--client-ca-file=" + c.path(fileCA),
			"--kubelet-client-certificate=" + c.path(fileKubeletCert), "--kubelet-client-key=" + c.path(fileKubeletKey),
			"--kubelet-preferred-address-types=InternalIP",
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + c.path(fileSigningKey), "--service-account-signing-key-file=" + c.path(fileSigningKey),
			"--allow-privileged=true",
		}},
	}
}

// controllers are the programs that need an API server to start.
func controllers(c *Credentials) []Component {
	client := func(kubeconfig string) []string {
		return []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--leader-elect=false", "--bind-address=127.0.0.1",
		}
	}
	return []Component{
		{Name: ControllerManager, Args: append(client(c.path(ControllerManager+".kubeconfig")),
			"--service-account-private-key-file="+c.path(fileSigningKey), "--root-ca-file="+c.path(fileCA),
			"--use-service-account-credentials=true", "--allocate-node-cidrs=false",
			"--controllers=*,-horizontal-pod-autoscaler-controller,-cronjob-controller")},
		{Name: Scheduler, Args: client(c.path(Scheduler + ".kubeconfig"))},
	}
}

// snapshotMetrics is where the controller of VolumeSnapshots listens.
const snapshotMetrics = "127.0.0.1:10280"

// snapshots is the controller of VolumeSnapshots.
func snapshots(kubeconfig string) Component {
	return Component{Name: SnapshotController, Args: []string{"--kubeconfig=" + kubeconfig, "--http-endpoint=" + snapshotMetrics, "--v=2"}}
}

// writeKubeconfigs writes those that the controllers' arguments name.
func (c *Credentials) writeKubeconfigs() error {
	for name, user := range map[string]string{
		ControllerManager: userControllerManager, Scheduler: userScheduler, SnapshotController: userSnapshotController,
	} {
		if err := c.write(c.path(name+".kubeconfig"), layout.APIServer(), user); err != nil {
			return err
		}
	}
	return nil
}

// LogFile returns where a component's output goes.
func LogFile(dir, component string) string { return filepath.Join(dir, component+".log") }
