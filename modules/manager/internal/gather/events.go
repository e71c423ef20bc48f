package gather

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// Events are those about the objects of a volume, of every type. Those that may not
// be read are left out.
func (g *Gatherer) Events(ctx context.Context, s explain.Snapshot) ([]corev1.Event, error) {
	var objects []client.Object
	if s.Claim != nil {
		objects = append(objects, s.Claim)
	}
	if s.Partition != nil {
		objects = append(objects, s.Partition)
	}
	for i := range s.Attachments {
		objects = append(objects, &s.Attachments[i])
	}
	for i := range s.Pods {
		objects = append(objects, &s.Pods[i])
	}
	var all []corev1.Event
	for _, o := range objects {
		var events corev1.EventList
		err := g.Reader.List(ctx, &events, client.InNamespace(o.GetNamespace()), client.MatchingFields{fieldRegarding: string(o.GetUID())})
		if missing(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read events about %s: %w", o.GetName(), err)
		}
		all = append(all, events.Items...)
	}
	return all, nil
}
