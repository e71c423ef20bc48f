package app

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/csi/internal/formatrecord"
	"github.com/distort-io/distort/modules/csi/internal/node"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// nodeReadTimeout bounds the only read at the start.
const nodeReadTimeout = time.Minute

// newNodeClient makes the client of the Node service. It has no cache: a node
// reads its own attachment when it stages one, and its own Node at the start and
// at the end.
func newNodeClient(config *rest.Config) (client.Client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return c, nil
}

func newNode(ctx context.Context, o Options, c client.Client, host Host, log logr.Logger) (*node.Server, error) {
	domain, err := networkDomain(ctx, o, c)
	if err != nil {
		return nil, err
	}
	return node.New(node.Options{
		NodeID: o.NodeID, Topology: map[string]string{o.TopologyKey: domain}, MaxVolumes: o.MaxVolumes,
		Initiator: host.Initiator, Filesystems: host.Filesystems, Records: host.Records,
		Recorder: formatrecord.New(o.NodeID, c),
		Log:      log,
	})
}

// networkDomain fails closed: a node of unknown place would be offered volumes
// that it cannot reach (design.md §7).
func networkDomain(ctx context.Context, o Options, c client.Reader) (string, error) {
	if o.NetworkDomain != "" {
		return o.NetworkDomain, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeReadTimeout)
	defer cancel()
	n := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
	if err := c.Get(ctx, types.NamespacedName{Name: o.NodeID}, &n); err != nil {
		return "", fmt.Errorf("read label %s of Node %s: %w", o.TopologyKey, o.NodeID, err)
	}
	domain, labelled := n.Labels[o.TopologyKey]
	if !labelled {
		return "", fmt.Errorf("network domain is unknown: Node %s has no label %s and --network-domain is not given", o.NodeID, o.TopologyKey)
	}
	if err := request.ValidateDomain(domain); err != nil {
		return "", fmt.Errorf("label %s of Node %s: %w", o.TopologyKey, o.NodeID, err)
	}
	return domain, nil
}
