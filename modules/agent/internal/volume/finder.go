package volume

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// ErrNoFinder: this agent does not have what holds such volumes.
var ErrNoFinder = errors.New("this agent does not serve such volumes")

// Finder finds the block devices that hold volumes. It makes nothing.
type Finder interface {
	// Device returns the path of the device that holds the volume now.
	Device(ctx context.Context, s v1alpha1.Slice) (string, error)
	// Survey is Device for many volumes, at the price of one read of each drive or
	// pool. What it returns is used by one goroutine, and soon.
	Survey(ctx context.Context) func(s v1alpha1.Slice) (string, error)
}

// Finders are the finders of each kind of object.
type Finders map[v1alpha1.VolumeKind]Finder

var (
	_ Finder = Finders{}
	_ Finder = (*Locator)(nil)
)

// Device implements Finder.
func (f Finders) Device(ctx context.Context, s v1alpha1.Slice) (string, error) {
	finder := f[s.GetReference().Kind]
	if finder == nil {
		return "", fmt.Errorf("%w: %s", ErrNoFinder, Name(s))
	}
	return finder.Device(ctx, s)
}

// Survey implements Finder. Each finder reads only if it is asked.
func (f Finders) Survey(ctx context.Context) func(v1alpha1.Slice) (string, error) {
	begun := map[v1alpha1.VolumeKind]func(v1alpha1.Slice) (string, error){}
	return func(s v1alpha1.Slice) (string, error) {
		kind := s.GetReference().Kind
		if f[kind] == nil {
			return "", fmt.Errorf("%w: %s", ErrNoFinder, Name(s))
		}
		if begun[kind] == nil {
			begun[kind] = f[kind].Survey(ctx)
		}
		return begun[kind](s)
	}
}

// Slices lists all volumes of this node that are exported as block devices. The
// cache holds no others.
func Slices(ctx context.Context, cache client.Reader) ([]v1alpha1.Slice, error) {
	var partitions v1alpha1.NVMePartitionList
	if err := cache.List(ctx, &partitions); err != nil {
		return nil, fmt.Errorf("list partitions of this node: %w", err)
	}
	var volumes v1alpha1.VolumeList
	if err := cache.List(ctx, &volumes); err != nil {
		return nil, fmt.Errorf("list volumes of this node: %w", err)
	}
	var out []v1alpha1.Slice
	for i := range partitions.Items {
		out = append(out, &partitions.Items[i])
	}
	for i := range volumes.Items {
		if v := &volumes.Items[i]; v.Spec.Type == v1alpha1.VolumeBlock {
			out = append(out, v)
		}
	}
	return out, nil
}

// Name is how errors call the object.
func Name(s v1alpha1.Slice) string {
	ref := s.GetReference()
	if ref.Namespace == "" {
		return string(ref.Kind) + " " + ref.Name
	}
	return string(ref.Kind) + " " + ref.Namespace + "/" + ref.Name
}
