// Package controlplane runs etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler in the lab's network, with certificates of their own and the
// authorization modes of a real cluster (Node, RBAC, NodeRestriction).
package controlplane

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/pki"
)

// Users of the cluster that are not kubelets.
const (
	userAdmin             = "admin"
	userControllerManager = "system:kube-controller-manager"
	userScheduler         = "system:kube-scheduler"
	// userSnapshotController is the account that upstream's roles are bound to.
	userSnapshotController = "system:serviceaccount:kube-system:snapshot-controller"
	userAPIServer          = "kube-apiserver"
	groupMasters           = "system:masters"
	groupNodes             = "system:nodes"
	nodeUserPrefix         = "system:node:"
)

// Credentials are the files that programs and users authenticate with.
type Credentials struct {
	dir       string
	authority *pki.Authority
}

// NewCredentials makes an authority, the API server's certificates and the key
// of service account tokens, in dir.
func NewCredentials(dir string) (*Credentials, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make credentials: %w", err)
	}
	authority, err := pki.NewAuthority("distort-lab")
	if err != nil {
		return nil, fmt.Errorf("make credentials: %w", err)
	}
	c := &Credentials{dir: dir, authority: authority}
	server, err := authority.Server(userAPIServer, []string{"kubernetes.default.svc", "localhost"},
		[]net.IP{net.ParseIP(layout.HostAddress), net.ParseIP(layout.ServiceVIP), net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("make credentials: %w", err)
	}
	toKubelet, err := authority.Client(userAPIServer, groupMasters)
	if err != nil {
		return nil, fmt.Errorf("make credentials: %w", err)
	}
	signing, err := pki.NewSigningKey()
	if err != nil {
		return nil, fmt.Errorf("make credentials: %w", err)
	}
	for name, data := range map[string][]byte{
		fileCA: authority.Cert, fileServerCert: server.Cert, fileServerKey: server.Key,
		fileKubeletCert: toKubelet.Cert, fileKubeletKey: toKubelet.Key, fileSigningKey: signing,
	} {
		if err := os.WriteFile(c.path(name), data, 0o600); err != nil {
			return nil, fmt.Errorf("make credentials: %w", err)
		}
	}
	return c, nil
}

// Names of the files.
const (
	fileCA          = "ca.crt"
	fileServerCert  = "apiserver.crt"
	fileServerKey   = "apiserver.key"
	fileKubeletCert = "to-kubelet.crt"
	fileKubeletKey  = "to-kubelet.key"
	fileSigningKey  = "tokens.key"
)

func (c *Credentials) path(name string) string { return filepath.Join(c.dir, name) }

// CA is the authority's certificate, PEM encoded.
func (c *Credentials) CA() string { return string(c.authority.Cert) }

// NodeKubeconfig is that of a node's kubelet.
func (c *Credentials) NodeKubeconfig(node string) (string, error) {
	config, err := c.kubeconfig(layout.APIServer(), nodeUserPrefix+node, groupNodes)
	if err != nil {
		return "", err
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", node, err)
	}
	return string(data), nil
}

// WriteAdmin writes the administrator's kubeconfig for that URL of the server.
func (c *Credentials) WriteAdmin(path, server string) error {
	return c.write(path, server, userAdmin, groupMasters)
}

func (c *Credentials) write(path, server, user string, groups ...string) error {
	config, err := c.kubeconfig(server, user, groups...)
	if err != nil {
		return err
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	return nil
}

func (c *Credentials) kubeconfig(server, user string, groups ...string) (*clientcmdapi.Config, error) {
	pair, err := c.authority.Client(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("make kubeconfig of %s: %w", user, err)
	}
	const name = "distort-lab"
	return &clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthorityData: c.authority.Cert}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	}, nil
}
