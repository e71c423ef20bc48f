package export

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
)

// model is what initiators read as the model number of every volume.
const model = "DISTORT"

// Target is the backend over one nvmeof.Target.
type Target struct {
	name   v1alpha1.TargetBackend
	source string // of evidence
	target nvmeof.Target
	fresh  func(context.Context) (bool, error)
}

var _ Backend = (*Target)(nil)

// NewKernel returns the backend over the kernel's nvmet.
func NewKernel(target nvmeof.Target) *Target {
	return &Target{
		name: v1alpha1.BackendKernel, source: "configfs", target: target,
		fresh: func(context.Context) (bool, error) { return false, nil },
	}
}

// SPDKTarget is nvmeof's target on SPDK (spdk.Target).
type SPDKTarget interface {
	nvmeof.Target
	Fresh(ctx context.Context) (bool, error)
}

// NewSPDK returns the backend over SPDK's nvmf_tgt. The devices of its volumes are
// bdevs, by spdk.DevicePath.
func NewSPDK(target SPDKTarget) *Target {
	return &Target{name: v1alpha1.BackendSPDK, source: "nvmf_subsystem_get_controllers", target: target, fresh: target.Fresh}
}

// Name implements Backend.
func (t *Target) Name() v1alpha1.TargetBackend { return t.name }

// Fresh implements Backend.
func (t *Target) Fresh(ctx context.Context) (bool, error) { return t.fresh(ctx) }

// Ensure implements Backend.
func (t *Target) Ensure(ctx context.Context, v Volume) (Result, error) {
	want, err := subsystem(v)
	if err != nil {
		return Result{}, err
	}
	if len(v.Former) > 0 {
		switch now, err := t.target.Inspect(ctx, want.NQN); {
		case err == nil:
			want.Listeners = keep(want.Listeners, v.Former, now)
		case !errors.Is(err, nvmeof.ErrNotFound):
			return Result{}, err
		}
	}
	report, err := t.target.Ensure(ctx, want)
	if errors.Is(err, nvmeof.ErrInvalid) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return result(report), err
}

// EnsureAll implements Backend.
func (t *Target) EnsureAll(ctx context.Context, each time.Duration, all []Volume) []error {
	errs := make([]error, len(all))
	var want []nvmeof.Subsystem
	var place []int
	for i, v := range all {
		sub, err := subsystem(v)
		if err != nil {
			errs[i] = err
			continue
		}
		want, place = append(want, sub), append(place, i)
	}
	for i, err := range t.target.EnsureAll(ctx, each, want) {
		errs[place[i]] = err
	}
	return errs
}

func result(report nvmeof.Report) Result {
	r := Result{Created: report.Created}
	for _, c := range report.Changes {
		r.Changes = append(r.Changes, c.String())
	}
	return r
}

// Remove implements Backend.
func (t *Target) Remove(ctx context.Context, volume types.UID) error {
	switch state, err := t.target.Inspect(ctx, nqn(volume)); {
	case errors.Is(err, nvmeof.ErrNotFound):
	case err != nil:
		return err
	case len(state.ConnectedHosts) > 0:
		return fmt.Errorf("%w to %s: %s", ErrConnected, state.NQN, strings.Join(state.ConnectedHosts, ", "))
	}
	_, err := t.target.Remove(ctx, nqn(volume))
	return err
}

// Revoke implements Backend.
func (t *Target) Revoke(ctx context.Context, volume types.UID, hostNQN string) (Evidence, error) {
	e, err := t.target.Revoke(ctx, nqn(volume), hostNQN)
	if err != nil {
		return Evidence{}, err
	}
	if !e.Complete() {
		return Evidence{}, fmt.Errorf("no proof: %s", e)
	}
	return Evidence{Observed: e.String(), Source: t.source, At: e.CompletedAt}, nil
}

// Revalidate implements Backend.
func (t *Target) Revalidate(ctx context.Context, volume types.UID) error {
	return t.target.Revalidate(ctx, nqn(volume), identity.NSID)
}

// Observe implements Backend.
func (t *Target) Observe(ctx context.Context) (Observation, error) {
	states, err := t.target.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the subsystems of backend %s: %w", t.name, err)
	}
	o := observation{}
	for _, s := range states {
		o[s.NQN] = s
	}
	return o, nil
}

// observation is all subsystems by NQN.
type observation map[string]nvmeof.State

func (o observation) Differences(v Volume) ([]string, error) {
	want, err := subsystem(v)
	if err != nil {
		return nil, err
	}
	state, exists := o[want.NQN]
	if !exists {
		return []string{"there is no subsystem " + want.NQN}, nil
	}
	want.Listeners = keep(want.Listeners, v.Former, state)
	var out []string
	for _, d := range nvmeof.Diff(want, state) {
		out = append(out, d.String())
	}
	return out, nil
}

func (o observation) Serving(volume types.UID) bool { return len(o[nqn(volume)].Ports) > 0 }

func (o observation) Strangers(volumes []types.UID) []string {
	known := map[string]bool{}
	for _, v := range volumes {
		known[nqn(v)] = true
	}
	var out []string
	for name := range o {
		if _, ours := identity.ExternalIDOfNQN(name); ours && !known[name] {
			out = append(out, name)
		}
	}
	return out
}

func (o observation) Foreign() map[string][]string {
	out := map[string][]string{}
	for name, state := range o {
		if _, ours := identity.ExternalIDOfNQN(name); ours {
			continue
		}
		for _, ns := range state.Namespaces {
			out[name] = append(out[name], ns.DevicePath)
		}
	}
	return out
}

func (o observation) Unseen() string {
	for _, state := range o {
		if state.ConnectedHosts == nil {
			return "live controllers are not observable on this kernel"
		}
	}
	return ""
}

func (o observation) Guests(v Volume) []string {
	var out []string
	for _, host := range o[nqn(v.UID)].ConnectedHosts {
		if !slices.Contains(v.Hosts, host) {
			out = append(out, fmt.Sprintf("host %s connected to %s", host, nqn(v.UID)))
		}
	}
	return out
}

func nqn(volume types.UID) string {
	return identity.VolumeNQN(identity.ExternalID(string(volume)))
}

// subsystem derives the whole subsystem. Nothing in it depends on what the target
// holds now.
func subsystem(v Volume) (nvmeof.Subsystem, error) {
	uid := string(v.UID)
	uuid, err := nvmeof.ParseUUID(identity.NamespaceUUID(uid))
	if err != nil {
		return nvmeof.Subsystem{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	nguid, err := nvmeof.ParseNGUID(strings.ReplaceAll(identity.NamespaceNGUID(uid), "-", ""))
	if err != nil {
		return nvmeof.Subsystem{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	listeners, err := listeners(v.Portals)
	if err != nil {
		return nvmeof.Subsystem{}, err
	}
	return nvmeof.Subsystem{
		NQN:          nqn(v.UID),
		Serial:       identity.SubsystemSerial(uid),
		Model:        model,
		Namespaces:   []nvmeof.Namespace{{NSID: identity.NSID, DevicePath: v.DevicePath, UUID: uuid, NGUID: nguid}},
		AllowedHosts: v.Hosts,
		Listeners:    listeners,
	}, nil
}

// keep adds those of the former portals to the listeners that serve the subsystem
// now.
func keep(wanted []nvmeof.Listener, former []v1alpha1.Portal, now nvmeof.State) []nvmeof.Listener {
	old, err := listeners(former)
	if err != nil {
		return wanted // they were never listened on
	}
	for _, p := range now.Ports {
		if l, ok := p.Listener(); ok && slices.Contains(old, l) && !slices.Contains(wanted, l) {
			wanted = append(wanted, l)
		}
	}
	return wanted
}

func listeners(portals []v1alpha1.Portal) ([]nvmeof.Listener, error) {
	var out []nvmeof.Listener
	for _, p := range portals {
		addr, err := netip.ParseAddr(p.Address)
		if err != nil {
			return nil, fmt.Errorf("%w: portal address: %w", ErrInvalid, err)
		}
		if p.Port < 1 || p.Port > 65535 {
			return nil, fmt.Errorf("%w: portal %s has port %d; it must be from 1 to 65535", ErrInvalid, p.Address, p.Port)
		}
		out = append(out, nvmeof.Listener{Transport: nvmeof.Transport(p.Transport), Address: addr, Port: uint16(p.Port)})
	}
	return out, nil
}
