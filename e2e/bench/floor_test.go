package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/distort-io/distort/e2e/internal/programs"
	"github.com/distort-io/distort/e2e/internal/repo"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// floorGroup has copies of the product's kinds, which its programs do not know.
var floorGroup = schema.GroupVersion{Group: "floor.storage.distort.io", Version: v1alpha1.GroupVersion.Version}

// floor makes the writes of a volume's life and nothing else. Its parties are the
// caller, who placed it, and who exported it.
type floor struct {
	api client.WithWatch
	// each is how often a caller looks; 0: it is woken by a watch.
	each time.Duration

	mu      sync.Mutex
	waiting map[string]*waiter
}

// waiter waits until something is true of an object, nil when it is gone.
type waiter struct {
	object client.Object
	is     func(client.Object) bool
	done   chan struct{}
}

// newFloor installs the copies and starts the parties.
func newFloor(t *testing.T, s *programs.System) *floor {
	t.Helper()
	installCopies(t, s)
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(floorGroup, &v1alpha1.NVMePartition{}, &v1alpha1.NVMePartitionList{}, &v1alpha1.NVMeVolumeAttachment{}, &v1alpha1.NVMeVolumeAttachmentList{})
	metav1.AddToGroupVersion(scheme, floorGroup)
	api, err := client.NewWithWatch(s.Config, client.Options{Scheme: scheme})
	must(t, err)
	f := &floor{api: api, waiting: map[string]*waiter{}}
	for _, list := range []client.ObjectList{&v1alpha1.NVMePartitionList{}, &v1alpha1.NVMeVolumeAttachmentList{}} {
		f.party(t, list, f.seen)
		f.party(t, list, f.serve)
	}
	f.party(t, &v1alpha1.NVMePartitionList{}, f.place)
	return f
}

// installCopies makes the floor's kinds of the product's.
func installCopies(t *testing.T, s *programs.System) {
	t.Helper()
	root, err := repo.Root()
	must(t, err)
	var copies []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range []string{"nvmepartitions", "nvmevolumeattachments"} {
		text, err := os.ReadFile(filepath.Join(root, "modules", "api", "config", "crd", "storage.distort.io_"+kind+".yaml"))
		must(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		must(t, yaml.Unmarshal(text, crd))
		crd.Name, crd.Spec.Group = kind+"."+floorGroup.Group, floorGroup.Group
		crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = nil, nil
		copies = append(copies, crd)
	}
	_, err = envtest.InstallCRDs(s.Config, envtest.CRDInstallOptions{CRDs: copies})
	must(t, err)
}

// party calls for each object that a watch of its own tells of.
func (f *floor) party(t *testing.T, list client.ObjectList, deal func(context.Context, watch.Event)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	open := func() (watch.Interface, error) { return f.api.Watch(ctx, list, client.InNamespace(programs.Namespace)) }
	events, err := open()
	must(t, err)
	var group sync.WaitGroup
	group.Go(func() {
		for err == nil {
			for e := range events.ResultChan() {
				deal(ctx, e)
			}
			// Once, soon after a kind was installed, the API server ends its watches.
			if events, err = open(); err == nil {
				f.note(f.recheck(ctx))
			}
		}
		f.note(err)
	})
	t.Cleanup(func() { cancel(); group.Wait() })
}

// recheck wakes the callers whose objects went while no watch was there to tell.
func (f *floor) recheck(ctx context.Context) error {
	f.mu.Lock()
	waiting := maps.Clone(f.waiting)
	f.mu.Unlock()
	for name, w := range waiting {
		err := f.api.Get(ctx, client.ObjectKeyFromObject(w.object), w.object.DeepCopyObject().(client.Object))
		if apierrors.IsNotFound(err) && w.is(nil) {
			f.tell(name, nil)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// place is the manager's write.
func (f *floor) place(ctx context.Context, e watch.Event) {
	p, ok := e.Object.(*v1alpha1.NVMePartition)
	if !ok || e.Type != watch.Added || p.Spec.NodeName != "" {
		return
	}
	go func() {
		placed := p.DeepCopy()
		placed.Spec.NodeName, placed.Spec.ParentDeviceSerialNumber = programs.Storage, "S"
		placed.Spec.ClaimRef = &v1alpha1.ObjectReference{Namespace: programs.Namespace, Name: "drive", UID: p.UID}
		f.note(f.api.Patch(ctx, placed, client.MergeFrom(p)))
	}()
}

// serve are the agent's writes: one status, and one finalizer at the end.
func (f *floor) serve(ctx context.Context, e watch.Event) {
	o, ok := e.Object.(client.Object)
	if !ok || e.Type == watch.Deleted {
		return
	}
	if o.GetDeletionTimestamp() != nil {
		if len(o.GetFinalizers()) > 0 {
			go func() {
				before := o.DeepCopyObject().(client.Object)
				o.SetFinalizers(nil)
				f.note(client.IgnoreNotFound(f.api.Patch(ctx, o, client.MergeFrom(before))))
			}()
		}
		return
	}
	switch o := o.(type) {
	case *v1alpha1.NVMePartition:
		if o.Spec.NodeName != "" && o.Status.State == "" {
			go func() {
				exported := o.DeepCopy()
				exported.Status = exportedStatus()
				f.note(f.api.Status().Patch(ctx, exported, client.MergeFrom(o)))
			}()
		}
	case *v1alpha1.NVMeVolumeAttachment:
		if o.Status.ObservedAttachmentID == "" {
			go func() {
				granted := o.DeepCopy()
				granted.Status.ObservedAttachmentID = o.Spec.AttachmentID
				granted.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionAccessReady, "Granted")}
				f.note(f.api.Status().Patch(ctx, granted, client.MergeFrom(o)))
			}()
		}
	}
}

func condition(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now()}
}

// exportedStatus is as large as a real one.
func exportedStatus() v1alpha1.NVMePartitionStatus {
	return v1alpha1.NVMePartitionStatus{
		State: v1alpha1.PartitionExported, ExternalID: "vol-0123456789abcdef0123456789abcdef",
		AllocatedCapacity: volumeBytes, NQN: "nqn.2026-02.io.distort:volume-vol-0123456789abcdef0123456789abcdef",
		Portals: []v1alpha1.Portal{{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}},
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionPlaced, "Placed"), condition(v1alpha1.ConditionClaimAuthorized, "ClaimMatches"),
			condition(v1alpha1.ConditionProvisioned, "Carved"), condition(v1alpha1.ConditionExported, "Exported"),
		},
	}
}

// note fails on an error that the end of the test does not explain.
func (f *floor) note(err error) {
	if err != nil && !errors.Is(err, context.Canceled) && !apierrors.IsConflict(err) && !strings.Contains(err.Error(), "context canceled") {
		panic(fmt.Sprintf("bench: a party of the floor: %v", err))
	}
}

// seen wakes the callers.
func (f *floor) seen(_ context.Context, e watch.Event) {
	o, ok := e.Object.(client.Object)
	if !ok {
		return
	}
	if e.Type == watch.Deleted {
		f.tell(key(o), nil)
		return
	}
	f.tell(key(o), o)
}

func (f *floor) tell(key string, o client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.waiting[key]; w != nil && w.is(o) {
		close(w.done)
		delete(f.waiting, key)
	}
}

func key(o client.Object) string { return fmt.Sprintf("%T %s", o, o.GetName()) }

// until does something and waits until its outcome is so.
func (f *floor) until(ctx context.Context, o client.Object, do func() error, is func(client.Object) bool) error {
	if f.each > 0 {
		return f.poll(ctx, o, do, is)
	}
	w := &waiter{object: o, is: is, done: make(chan struct{})}
	f.mu.Lock()
	f.waiting[key(o)] = w
	f.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// poll is until for a caller that looks now and then.
func (f *floor) poll(ctx context.Context, o client.Object, do func() error, is func(client.Object) bool) error {
	if err := do(); err != nil {
		return err
	}
	ticker := time.NewTicker(f.each)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		now := o.DeepCopyObject().(client.Object)
		err := f.api.Get(ctx, client.ObjectKeyFromObject(o), now)
		switch {
		case apierrors.IsNotFound(err):
			now = nil
		case err != nil:
			return err
		}
		if now == nil && is(nil) || now != nil && is(now) {
			return nil
		}
	}
}

// polling is the floor with a caller that looks each second.
func (f *floor) polling() *floor { return &floor{api: f.api, each: time.Second} }

// calls are the four phases.
func (f *floor) calls() []call {
	partition := func(name string) *v1alpha1.NVMePartition {
		return &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{Namespace: programs.Namespace, Name: name}}
	}
	attachment := func(name string) *v1alpha1.NVMeVolumeAttachment {
		return &v1alpha1.NVMeVolumeAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: programs.Namespace, Name: "att-" + name}}
	}
	gone := func(o client.Object) bool { return o == nil }
	return []call{
		{create, func(ctx context.Context, name string) error {
			p := partition(name)
			p.Finalizers = []string{v1alpha1.SliceFinalizer}
			p.Spec = v1alpha1.NVMePartitionSpec{
				Size: volumeBytes, TargetBackend: v1alpha1.BackendKernel, VolumeManager: v1alpha1.VolumeManagerPartition, Transport: v1alpha1.TransportTCP,
				AccessMode: v1alpha1.ReadWriteOnce, AccessType: v1alpha1.AccessBlock, RequestFingerprint: strings.Repeat("0", 64),
			}
			return f.until(ctx, p, func() error { return f.api.Create(ctx, p.DeepCopy()) }, func(o client.Object) bool {
				p, ok := o.(*v1alpha1.NVMePartition)
				return ok && p.Status.State == v1alpha1.PartitionExported
			})
		}},
		{publish, func(ctx context.Context, name string) error {
			a := attachment(name)
			a.Finalizers = []string{v1alpha1.AccessFinalizer}
			a.Spec = v1alpha1.NVMeVolumeAttachmentSpec{
				VolumeRef:  v1alpha1.VolumeReference{Kind: v1alpha1.KindNVMePartition, Namespace: programs.Namespace, Name: name, UID: types.UID("11111111-1111-4111-8111-111111111111")},
				TargetNode: programs.Storage, NodeID: programs.Consumer, HostNQN: "nqn.2026-01.io.distort:host-" + strings.Repeat("0", 32),
				AttachmentID: "22222222-2222-4222-8222-222222222222",
			}
			return f.until(ctx, a, func() error { return f.api.Create(ctx, a.DeepCopy()) }, func(o client.Object) bool {
				a, ok := o.(*v1alpha1.NVMeVolumeAttachment)
				return ok && a.Status.ObservedAttachmentID != ""
			})
		}},
		{unpublish, func(ctx context.Context, name string) error {
			a := attachment(name)
			return f.until(ctx, a, func() error { return f.api.Delete(ctx, a) }, gone)
		}},
		{remove, func(ctx context.Context, name string) error {
			p := partition(name)
			return f.until(ctx, p, func() error { return f.api.Delete(ctx, p) }, gone)
		}},
	}
}
