package volume

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Verification is one comparison of all exports of this node with what they
// should be.
type Verification struct {
	// Broken has what differs, by the UID of the volume.
	Broken map[types.UID][]string
	// Strangers are exports with a name of DISTORT's that belong to no volume of this
	// node, other exports of a claimed drive, and hosts that are connected to a volume
	// which does not admit them. They are never touched.
	Strangers []string
	// Unseen says what could not be looked at on this node, whatever there is.
	Unseen string
}

// Verifier compares the exports of this node in bulk: one read of each backend,
// and what Finder.Survey reads, whatever the number of volumes (design.md §9).
type Verifier struct {
	exporter *Exporter
	finder   Finder
}

// NewVerifier returns a Verifier of what these two made.
func NewVerifier(e *Exporter, f Finder) *Verifier { return &Verifier{exporter: e, finder: f} }

// Verify compares these volumes. Those that were not exported
// yet by this process are left to their own reconciliation.
func (v *Verifier) Verify(ctx context.Context, all []v1alpha1.Slice) (Verification, error) {
	observed := map[v1alpha1.TargetBackend]export.Observation{}
	out := Verification{Broken: map[types.UID][]string{}}
	var unseen []string
	unread := map[v1alpha1.TargetBackend]error{}
	for name, backend := range v.exporter.backends {
		o, err := backend.Observe(ctx)
		if err != nil {
			// A target that is down is no reason not to look at the others.
			unread[name] = err
			unseen = append(unseen, fmt.Sprintf("the exports of backend %s cannot be read", name))
			continue
		}
		observed[name] = o
	}
	uids, err := v.volumes(ctx, all)
	if err != nil {
		return Verification{}, err
	}
	for _, o := range observed {
		foreign, err := v.foreign(ctx, o.Foreign())
		if err != nil {
			return Verification{}, err
		}
		out.Strangers = append(append(out.Strangers, o.Strangers(uids)...), foreign...)
		if text := o.Unseen(); text != "" {
			unseen = append(unseen, text)
		}
	}
	slices.Sort(unseen)
	out.Unseen = strings.Join(unseen, "; ")
	device := v.finder.Survey(ctx)
	at := oncePortals{from: v.exporter.portals, read: map[v1alpha1.Transport][]v1alpha1.Portal{}}
	for _, s := range all {
		last, ok := v.exporter.last(s.GetUID())
		o, name := observed[s.GetTargetBackend()], s.GetTargetBackend()
		if !ok || !s.GetDeletionTimestamp().IsZero() {
			continue
		}
		if o == nil {
			if err := unread[name]; err != nil {
				out.Broken[s.GetUID()] = []string{err.Error()}
			}
			continue
		}
		differences, guests, err := v.differences(ctx, s, last, o, device, at)
		if err != nil {
			differences = []string{err.Error()}
		}
		if len(differences) > 0 {
			out.Broken[s.GetUID()] = differences
		}
		out.Strangers = append(out.Strangers, guests...)
	}
	slices.Sort(out.Strangers)
	return out, nil
}

// volumes are the UIDs of the volumes that were given, and of those that there are
// now: the export of one that was made meanwhile is no stranger.
func (v *Verifier) volumes(ctx context.Context, all []v1alpha1.Slice) ([]types.UID, error) {
	now, err := Slices(ctx, v.exporter.cache)
	if err != nil {
		return nil, err
	}
	var out []types.UID
	for _, s := range slices.Concat(all, now) {
		out = append(out, s.GetUID())
	}
	return out, nil
}

func (v *Verifier) differences(ctx context.Context, s v1alpha1.Slice, last export.Volume, o export.Observation, device func(v1alpha1.Slice) (string, error), at Portals) (out, guests []string, err error) {
	path, err := device(s)
	if err != nil {
		return nil, nil, err
	}
	want, err := v.exporter.desired(ctx, s, path, at)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Equal(want.Portals, last.Portals) {
		out = append(out, fmt.Sprintf("portals of the node: want %s, exported on %s", portals(want.Portals), portals(last.Portals)))
	}
	differences, err := o.Differences(want)
	return append(out, differences...), o.Guests(want), err
}

func portals(list []v1alpha1.Portal) string {
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprintf("%s %s %d", p.Transport, p.Address, p.Port))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// oncePortals reads the portals of each transport once.
type oncePortals struct {
	from Portals
	read map[v1alpha1.Transport][]v1alpha1.Portal
}

func (o oncePortals) On(ctx context.Context, t v1alpha1.Transport) ([]v1alpha1.Portal, error) {
	if list, ok := o.read[t]; ok {
		return list, nil
	}
	list, err := o.from.On(ctx, t)
	if err == nil {
		o.read[t] = list
	}
	return list, err
}
