package claim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/lag"
	"github.com/distort-io/distort/modules/manager/internal/placement"
	"github.com/distort-io/distort/modules/manager/internal/write"
)

// serialField indexes devices and claims by their exact serial number.
const serialField = "spec.serialNumber"

// Request is a serial number: all devices and claims that have it.
type Request struct{ Serial string }

// Ledger tells which partitions are on a drive. placement.Ledger implements it.
type Ledger interface {
	// CloseClaim keeps new partitions away from the claim's drive from now on.
	CloseClaim(claim *v1alpha1.NVMeDeviceClaim)
	// Holders lists the partitions on the drives with this serial number.
	Holders(serial string) []placement.Holder
}

// Reconciler binds and releases drives.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server, where absence must be certain.
	Live   client.Reader
	Ledger Ledger
	// Released names the drives that lost a partition.
	Released source.TypedSource[Request]
	// Clock is time.Now outside tests.
	Clock func() time.Time
	// Recorder of events.
	Recorder events.EventRecorder

	lag lag.Tracker
}

// SetupWithManager registers the reconciler, with one worker, and its indexes.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	index := mgr.GetFieldIndexer()
	for _, object := range []client.Object{&v1alpha1.NVMeDevice{}, &v1alpha1.NVMeDeviceClaim{}} {
		if err := index.IndexField(ctx, object, serialField, func(o client.Object) []string { return []string{serialOf(o)} }); err != nil {
			return fmt.Errorf("index %T by %s: %w", object, serialField, err)
		}
	}
	bySerial := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []Request {
		return []Request{{Serial: serialOf(o)}}
	})
	return builder.TypedControllerManagedBy[Request](mgr).Named("claim").
		Watches(&v1alpha1.NVMeDeviceClaim{}, bySerial).
		Watches(&v1alpha1.NVMeDevice{}, bySerial).
		WatchesRawSource(r.Released).
		WithOptions(controller.TypedOptions[Request]{MaxConcurrentReconciles: 1}).
		Complete(r)
}

func serialOf(object client.Object) string {
	switch o := object.(type) {
	case *v1alpha1.NVMeDevice:
		return o.Spec.SerialNumber
	case *v1alpha1.NVMeDeviceClaim:
		return o.Spec.SerialNumber
	}
	return ""
}

// scene is everything with one serial number, as it is known in this pass.
type scene struct {
	devices []*v1alpha1.NVMeDevice      // by name
	claims  []*v1alpha1.NVMeDeviceClaim // by seniority
	// again is when to look again although nothing changed; 0 for never.
	again time.Duration
}

// owners names the claims by UID.
func (s *scene) owners() map[types.UID]string {
	owners := map[types.UID]string{}
	for _, claim := range s.claims {
		owners[claim.UID] = claim.Namespace + "/" + claim.Name
	}
	return owners
}

// Reconcile brings the devices and claims of one serial number in order. A
// write that lost against another one ends the pass: the watch brings the next.
func (r *Reconciler) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	s, err := r.read(ctx, request.Serial)
	if err != nil || r.lags(s) {
		return reconcile.Result{}, err
	}
	for _, phase := range []func(context.Context, *scene) error{r.release, r.reap, r.bind, r.describe, r.retire} {
		if err := phase(ctx, s); err != nil {
			if write.IgnoreLost(err) == nil {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, fmt.Errorf("serial number %q: %w", request.Serial, err)
		}
	}
	return reconcile.Result{RequeueAfter: s.again}, nil
}

func (r *Reconciler) read(ctx context.Context, serial string) (*scene, error) {
	var devices v1alpha1.NVMeDeviceList
	if err := r.Client.List(ctx, &devices, client.MatchingFields{serialField: serial}); err != nil {
		return nil, fmt.Errorf("list devices with serial number %q: %w", serial, err)
	}
	var claims v1alpha1.NVMeDeviceClaimList
	if err := r.Client.List(ctx, &claims, client.MatchingFields{serialField: serial}); err != nil {
		return nil, fmt.Errorf("list claims of serial number %q: %w", serial, err)
	}
	s := &scene{}
	for i := range devices.Items {
		s.devices = append(s.devices, &devices.Items[i])
	}
	for i := range claims.Items {
		s.claims = append(s.claims, &claims.Items[i])
	}
	slices.SortFunc(s.devices, func(a, b *v1alpha1.NVMeDevice) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.claims, seniority)
	return s, nil
}

// lags tells whether the cache does not show an own write yet; the pass is left
// to the event that will.
func (r *Reconciler) lags(s *scene) bool {
	for _, device := range s.devices {
		if r.lag.Lags(device) {
			return true
		}
	}
	for _, claim := range s.claims {
		if r.lag.Lags(claim) {
			return true
		}
	}
	return false
}

// bind gives each live claim what it gets.
func (r *Reconciler) bind(ctx context.Context, s *scene) error {
	for _, claim := range s.claims {
		if claim.DeletionTimestamp != nil {
			continue
		}
		if err := r.hold(ctx, claim); err != nil {
			return err
		}
		v := judge(claim, s.devices, s.owners(), r.Ledger.Holders(claim.Spec.SerialNumber))
		for _, device := range v.leaves {
			if err := r.assign(ctx, device, nil); err != nil {
				return err
			}
		}
		if v.device != nil && !owns(claim, v.device) {
			ref := &v1alpha1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
			if err := r.assign(ctx, v.device, ref); err != nil {
				return err
			}
		}
		if err := r.tell(ctx, claim, v); err != nil {
			return err
		}
	}
	return nil
}

// hold puts the finalizer on a claim before it can own anything.
func (r *Reconciler) hold(ctx context.Context, claim *v1alpha1.NVMeDeviceClaim) error {
	base := claim.DeepCopy()
	if !controllerutil.AddFinalizer(claim, v1alpha1.ClaimFinalizer) {
		return nil
	}
	if err := r.patch(ctx, claim, base); err != nil {
		return fmt.Errorf("put finalizer on claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// describe brings the state of every device up to date.
func (r *Reconciler) describe(ctx context.Context, s *scene) error {
	for _, device := range s.devices {
		if err := r.assign(ctx, device, device.Status.ClaimRef); err != nil {
			return err
		}
	}
	return nil
}

// assign sets or clears the owner of a device, and the state that follows.
func (r *Reconciler) assign(ctx context.Context, device *v1alpha1.NVMeDevice, owner *v1alpha1.ObjectReference) error {
	base := device.DeepCopy()
	device.Status.ClaimRef = owner
	device.Status.State = stateOf(device)
	if base.Status.State == device.Status.State && sameOwner(base.Status.ClaimRef, owner) {
		return nil
	}
	if err := r.patchStatus(ctx, device, base); err != nil {
		return fmt.Errorf("write owner and state of device %s: %w", device.Name, err)
	}
	return nil
}

func sameOwner(a, b *v1alpha1.ObjectReference) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// tell writes the claim's status when it changed, and the event with it.
func (r *Reconciler) tell(ctx context.Context, claim *v1alpha1.NVMeDeviceClaim, v verdict) error {
	base := claim.DeepCopy()
	claim.Status = statusOf(claim, v)
	before := meta.FindStatusCondition(base.Status.Conditions, v1alpha1.ConditionBound)
	changed := before == nil || before.Reason != v.reason || before.Message != v.message || before.ObservedGeneration != claim.Generation
	if !changed && base.Status.Active == claim.Status.Active &&
		base.Status.MatchedDevice == claim.Status.MatchedDevice && base.Status.NodeName == claim.Status.NodeName {
		return nil
	}
	if err := r.patchStatus(ctx, claim, base); err != nil {
		return fmt.Errorf("write status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	if before == nil || before.Reason != v.reason || before.Message != v.message {
		kind := corev1.EventTypeWarning
		if v.reason == v1alpha1.ReasonBound {
			kind = corev1.EventTypeNormal
		}
		log.FromContext(ctx).Info("claim changed", "claim", client.ObjectKeyFromObject(claim), "reason", v.reason, "message", v.message)
		r.Recorder.Eventf(claim, nil, kind, v.reason, "Bind", "%s", v.message)
	}
	return nil
}

// patch is write.Patch, and keeps in mind that the cache lags behind it.
func (r *Reconciler) patch(ctx context.Context, object, base client.Object) error {
	err := write.Patch(ctx, r.Client, object, base)
	if err == nil {
		r.lag.Replaced(object, base.GetResourceVersion())
	}
	return err
}

// patchStatus is patch for the status.
func (r *Reconciler) patchStatus(ctx context.Context, object, base client.Object) error {
	err := write.Status(ctx, r.Client, object, base)
	if err == nil {
		r.lag.Replaced(object, base.GetResourceVersion())
	}
	return err
}
