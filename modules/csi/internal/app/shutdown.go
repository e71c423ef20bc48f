package app

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/csi/internal/metrics"
	"github.com/distort-io/distort/modules/csi/internal/nodeshutdown"
)

// shutdownTimeout bounds what is done at the end, within the 30 s after which
// kubelet kills a container.
const shutdownTimeout = 25 * time.Second

// startNode makes the Node service, has it look after what is staged, and
// prepares the end of the node.
func (p *parts) startNode(ctx context.Context, o Options, config *rest.Config, host Host, log logr.Logger) error {
	c, err := newNodeClient(config)
	if err != nil {
		return err
	}
	s, err := newNode(ctx, o, c, host, log)
	if err != nil {
		return err
	}
	p.node = s
	metrics.Paths(s.PathStates)
	p.group.Go(func() error {
		s.Resume(ctx)
		return nil
	})
	p.group.Go(func() error {
		<-ctx.Done()
		// When the program fails by itself, its node does not go down.
		if p.asked.Err() != nil && nodeGoesDown(context.WithoutCancel(p.asked), o, c, log) {
			end, cancel := context.WithTimeout(context.WithoutCancel(p.asked), shutdownTimeout-maxShutdownPatience)
			defer cancel()
			s.FailFast(end)
		}
		return nil
	})
	return nil
}

// nodeGoesDown tells whether the program was asked to end because its node goes
// down. Connections are left as they are when only the pod does.
func nodeGoesDown(ctx context.Context, o Options, c client.Reader, log logr.Logger) bool {
	d := nodeshutdown.Detector{
		Marker: o.ShutdownMarker, Patience: o.ShutdownPatience,
		Node: func(ctx context.Context) (*corev1.Node, error) {
			var n corev1.Node
			return &n, c.Get(ctx, types.NamespacedName{Name: o.NodeID}, &n)
		},
	}
	if d.Marker == none {
		d.Marker = ""
	}
	sign, down, err := d.GoingDown(ctx)
	switch {
	case down:
		log.Info("the node goes down", "sign", sign)
	case err != nil:
		log.Error(err, "cannot tell whether the node goes down; connections stay as they are")
	default:
		log.Info("the node stays; connections stay as they are")
	}
	return down
}
