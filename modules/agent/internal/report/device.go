package report

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// reportDrives writes one object per serial number that was seen, or that has an
// object already. One drive's failure does not keep the others from being
// reported.
func (r *Reporter) reportDrives(ctx, scanCtx context.Context, scan inventory.Scan) error {
	objects, err := r.ownDevices(ctx)
	if err != nil {
		return err
	}
	seen := sights(scan)
	for serial := range objects {
		if seen[serial] == nil {
			seen[serial] = &sight{serial: serial, complete: scan.Complete, all: scan.Problems}
		}
	}
	maps.DeleteFunc(r.probes, func(serial string, _ probe) bool { return seen[serial] == nil })
	maps.DeleteFunc(r.surveys, func(serial string, _ survey) bool { return seen[serial] == nil })
	var errs []error
	for _, serial := range slices.Sorted(maps.Keys(seen)) {
		s := seen[serial]
		r.inspect(scanCtx, s, objects[serial])
		r.survey(scanCtx, s)
		if err := r.reportDrive(ctx, s, objects[serial]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// inspect adds what uses the drive and what is on it.
func (r *Reporter) inspect(ctx context.Context, s *sight, have *v1alpha1.NVMeDevice) {
	if !s.single() {
		return
	}
	d := s.drives[0]
	s.spdk = have != nil && have.Status.ActiveBackend == v1alpha1.ActiveBackendSPDK
	s.uses, s.usesErr = r.Hardware.Uses(d.Name)
	if s.usesErr != nil || len(s.uses) > 0 {
		delete(r.probes, s.serial)
		return
	}
	p, changes := r.probes[s.serial], r.Tables.Changes(d.Serial)
	if !p.fresh(d, r.Now(), changes) {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		p = p.next(d, r.Media.Probe(ctx, d), have, r.Now())
		p.changes = changes
		r.probes[s.serial] = p
	}
	s.found, s.timeouts = p.found, p.timeouts
}

// reportDrive makes the drive's object as the sight says.
func (r *Reporter) reportDrive(ctx context.Context, s *sight, have *v1alpha1.NVMeDevice) error {
	if have == nil {
		if !s.inventory() {
			return nil
		}
		have = &v1alpha1.NVMeDevice{
			ObjectMeta: metav1.ObjectMeta{Name: identity.DeviceName(r.NodeName, s.serial)},
			Spec:       s.spec(r.NodeName),
		}
		if err := r.Client.Create(ctx, have); err != nil {
			return fmt.Errorf("create NVMeDevice %s for drive %q: %w", have.Name, s.serial, err)
		}
		log.FromContext(ctx).Info("drive is new", "device", have.Name, "serial", s.serial, "pciAddress", have.Spec.PCIAddress)
	} else if len(s.drives) == 1 {
		want := have.DeepCopy()
		want.Spec = s.spec(r.NodeName)
		if !equality.Semantic.DeepEqual(have.Spec, want.Spec) {
			if err := r.Client.Patch(ctx, want, client.MergeFrom(have)); err != nil {
				return fmt.Errorf("update NVMeDevice %s of drive %q: %w", have.Name, s.serial, err)
			}
			have = want
		}
	}
	return r.reportConditions(ctx, s, have)
}

func (r *Reporter) reportConditions(ctx context.Context, s *sight, have *v1alpha1.NVMeDevice) error {
	want := have.DeepCopy()
	changed := r.setCondition(&want.Status.Conditions, want.Generation, s.hardware())
	if c, ok := s.media(); ok {
		changed = r.setCondition(&want.Status.Conditions, want.Generation, c) || changed
	}
	if v := s.survey; v != nil {
		changed = r.setCondition(&want.Status.Conditions, want.Generation, v.condition) || changed || want.Status.LargestFreeExtent != v.largestFree
		want.Status.LargestFreeExtent = v.largestFree
	}
	if !changed {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, want, client.MergeFrom(have)); err != nil {
		return fmt.Errorf("update status of NVMeDevice %s of drive %q: %w", have.Name, s.serial, err)
	}
	if line := describe(want.Status.Conditions); line != describe(have.Status.Conditions) {
		log.FromContext(ctx).Info("drive changed", "device", want.Name, "serial", s.serial, "conditions", line)
	}
	return nil
}

// setCondition is meta.SetStatusCondition with this reporter's clock.
func (r *Reporter) setCondition(all *[]metav1.Condition, generation int64, c metav1.Condition) bool {
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(r.Now())
	return meta.SetStatusCondition(all, c)
}

func describe(conditions []metav1.Condition) string {
	var out []string
	for _, c := range conditions {
		out = append(out, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason))
	}
	return strings.Join(out, ", ")
}
