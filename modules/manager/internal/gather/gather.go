package gather

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// What cannot be explained.
var (
	// ErrNotFound: nothing has this name.
	ErrNotFound = errors.New("not found")
	// ErrNotOurs: the volume is of another driver.
	ErrNotOurs = errors.New("not a volume of " + v1alpha1.DriverName)
)

// Gatherer makes snapshots.
type Gatherer struct {
	// Reader reads from the API server, as the user.
	Reader client.Reader
	// Namespace is the driver's.
	Namespace string
	// Now is time.Now outside tests.
	Now func() time.Time
}

// Claim is the snapshot of one claim with all pods that use it. Its errors are
// ErrNotFound, ErrNotOurs and those of the API server.
func (g *Gatherer) Claim(ctx context.Context, key client.ObjectKey) (explain.Snapshot, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := g.Reader.Get(ctx, key, claim); apierrors.IsNotFound(err) {
		return explain.Snapshot{}, fmt.Errorf("PersistentVolumeClaim %s: %w", key, ErrNotFound)
	} else if err != nil {
		return explain.Snapshot{}, fmt.Errorf("read PersistentVolumeClaim %s: %w", key, err)
	}
	v := g.start(explain.SubjectClaim, key)
	v.s.Claim = claim
	v.readPods(ctx, key)
	return v.finish(ctx)
}

// Pod is a snapshot of each claim that the pod uses, with no other pod. Claims
// of other drivers are left out; ErrNotOurs when that leaves none.
func (g *Gatherer) Pod(ctx context.Context, key client.ObjectKey) ([]explain.Snapshot, error) {
	pod := &corev1.Pod{}
	if err := g.Reader.Get(ctx, key, pod); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("pod %s: %w", key, ErrNotFound)
	} else if err != nil {
		return nil, fmt.Errorf("read pod %s: %w", key, err)
	}
	var all []explain.Snapshot
	for _, volume := range pod.Spec.Volumes {
		name := explain.ClaimName(pod, &volume)
		if name == "" {
			continue
		}
		v := g.start(explain.SubjectClaim, client.ObjectKey{Namespace: key.Namespace, Name: name})
		v.s.Claim = read(ctx, v, explain.KindClaim, client.ObjectKey{Namespace: key.Namespace, Name: name}, &corev1.PersistentVolumeClaim{})
		v.s.Pods = []corev1.Pod{*pod}
		s, err := v.finish(ctx)
		if errors.Is(err, ErrNotOurs) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pod %s uses no claim: %w", key, ErrNotOurs)
	}
	return all, nil
}

// visit is one snapshot in the making. Its first error ends it.
type visit struct {
	g   *Gatherer
	s   explain.Snapshot
	err error
}

func (g *Gatherer) start(kind string, key client.ObjectKey) *visit {
	return &visit{g: g, s: explain.Snapshot{
		Now: g.Now(), Namespace: g.Namespace, Subject: explain.Subject{Kind: kind, Namespace: key.Namespace, Name: key.Name},
	}}
}

// missing tells whether an error means that evidence cannot be had: the user has
// no right to it, or the cluster does not serve it.
func missing(err error) bool { return apierrors.IsForbidden(err) || meta.IsNoMatchError(err) }

// failed notes an error: of the whole visit, or of one piece of evidence.
func (v *visit) failed(kind, name string, err error) {
	switch {
	case err == nil, v.err != nil:
	case missing(err):
		v.s.Unreadable = append(v.s.Unreadable, explain.Unreadable{Kind: kind, Name: name, Error: err.Error()})
	default:
		v.err = fmt.Errorf("read %s %s: %w", kind, name, err)
	}
}

// read gets an object; nil when it does not exist or cannot be had.
func read[P client.Object](ctx context.Context, v *visit, kind string, key client.ObjectKey, object P) P {
	var none P
	if v.err != nil || key.Name == "" {
		return none
	}
	err := v.g.Reader.Get(ctx, key, object)
	if err == nil {
		return object
	}
	if !apierrors.IsNotFound(err) {
		v.failed(kind, key.Name, err)
	}
	return none
}

// list fills a list; what cannot be had is empty.
func (v *visit) list(ctx context.Context, kind, name string, list client.ObjectList, options ...client.ListOption) {
	if v.err == nil {
		v.failed(kind, name, v.g.Reader.List(ctx, list, options...))
	}
}

// readPods reads the pods that use a claim. No field selects them.
func (v *visit) readPods(ctx context.Context, claim client.ObjectKey) {
	var pods corev1.PodList
	v.list(ctx, explain.KindPod, "", &pods, client.InNamespace(claim.Namespace))
	for i := range pods.Items {
		pod := &pods.Items[i]
		for j := range pod.Spec.Volumes {
			if explain.ClaimName(pod, &pod.Spec.Volumes[j]) == claim.Name {
				v.s.Pods = append(v.s.Pods, *pod)
				break
			}
		}
	}
}

// ours tells whether the claim is of the driver. One that nothing is known of
// may be.
func (v *visit) ours() bool {
	if v.s.Volume != nil {
		return v.s.Volume.Spec.CSI != nil && v.s.Volume.Spec.CSI.Driver == v1alpha1.DriverName
	}
	for _, key := range []string{"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"} {
		if driver := v.s.Claim.Annotations[key]; driver != "" {
			return driver == v1alpha1.DriverName
		}
	}
	return v.s.Class == nil || v.s.Class.Provisioner == v1alpha1.DriverName
}

// class is the StorageClass of the claim.
func (v *visit) class(ctx context.Context) *storagev1.StorageClass {
	name := v.s.Claim.Spec.StorageClassName
	if name == nil {
		return nil
	}
	return read(ctx, v, explain.KindClass, client.ObjectKey{Name: *name}, &storagev1.StorageClass{})
}
