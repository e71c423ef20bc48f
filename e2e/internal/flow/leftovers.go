package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// leftoverTimeout is how long traces may take to go after the last deletion:
// there is none that comes later than the object it belongs to.
const leftoverTimeout = 15 * time.Second

// ErrLeftovers says that something outlived the volumes.
var ErrLeftovers = errors.New("something is left")

// NothingLeft proves that no volume has left a trace: objects in Kubernetes,
// exports and partitions on the storage nodes, controllers and mounts on the
// consumers. It returns what it looked at, one line for each place.
func (f *Flow) NothingLeft(ctx context.Context) ([]string, error) {
	var seen, left []string
	err := Eventually(ctx, "nothing is left", leftoverTimeout, func(ctx context.Context) (string, error) {
		var err error
		seen, left, err = f.lookAround(ctx)
		return strings.Join(left, "; "), err
	})
	if errors.Is(err, ErrTimeout) {
		err = fmt.Errorf("%w: %s", ErrLeftovers, strings.Join(left, "; "))
	}
	return seen, err
}

// lookAround looks at every place once.
func (f *Flow) lookAround(ctx context.Context) (seen, left []string, err error) {
	for _, look := range []func(context.Context) (place string, found []string, err error){
		f.leftObjects, f.leftOnStorage, f.leftOnConsumers,
	} {
		place, found, err := look(ctx)
		if err != nil {
			return nil, nil, err
		}
		seen = append(seen, place)
		left = append(left, found...)
	}
	return seen, left, nil
}

// leftObjects lists the objects of volumes and their attachments.
func (f *Flow) leftObjects(ctx context.Context) (string, []string, error) {
	lists := []struct {
		name string
		list client.ObjectList
		own  func(client.Object) bool
	}{
		{"NVMePartition", &v1alpha1.NVMePartitionList{}, nil},
		{"NVMeVolumeAttachment", &v1alpha1.NVMeVolumeAttachmentList{}, nil},
		{"NVMeDeviceClaim", &v1alpha1.NVMeDeviceClaimList{}, nil},
		{"Volume", &v1alpha1.VolumeList{}, nil},
		{"Snapshot", &v1alpha1.SnapshotList{}, nil},
		{"VolumeAttachment", &storagev1.VolumeAttachmentList{}, func(o client.Object) bool {
			attachment, ok := o.(*storagev1.VolumeAttachment)
			return ok && attachment.Spec.Attacher == v1alpha1.DriverName
		}},
		{"PersistentVolume", &corev1.PersistentVolumeList{}, func(o client.Object) bool {
			volume, ok := o.(*corev1.PersistentVolume)
			return ok && volume.Spec.CSI != nil && volume.Spec.CSI.Driver == v1alpha1.DriverName
		}},
	}
	var found, kinds []string
	for _, item := range lists {
		kinds = append(kinds, item.name)
		if err := f.client.List(ctx, item.list); err != nil {
			return "", nil, fmt.Errorf("list %s: %w", item.name, err)
		}
		err := meta.EachListItem(item.list, func(object runtimeObject) error {
			if o, ok := object.(client.Object); ok && (item.own == nil || item.own(o)) {
				found = append(found, item.name+" "+client.ObjectKeyFromObject(o).String())
			}
			return nil
		})
		if err != nil {
			return "", nil, fmt.Errorf("list %s: %w", item.name, err)
		}
	}
	return "objects: no " + strings.Join(kinds, ", no "), found, nil
}

// configfs of the kernel's target.
const (
	subsystemsDir = "/sys/kernel/config/nvmet/subsystems"
	portsDir      = "/sys/kernel/config/nvmet/ports"
)

// leftOnStorage lists exports, and partitions of the lab's drives, on storage
// guests.
func (f *Flow) leftOnStorage(ctx context.Context) (string, []string, error) {
	var found []string
	for _, node := range layout.Nodes() {
		if node.Role != layout.Storage {
			continue
		}
		guest, err := f.lab.Guest(node.Name)
		if err != nil {
			return "", nil, err
		}
		for what, args := range map[string][]string{
			"nvmet subsystem":              {"find", subsystemsDir, "-mindepth", "1", "-maxdepth", "1"},
			"subsystem linked to a port":   {"find", portsDir, "-mindepth", "3", "-maxdepth", "3", "-path", "*/subsystems/*"},
			"GPT partition":                {"find", "/sys/block", "-mindepth", "2", "-maxdepth", "2", "-path", "*/nvme*/nvme*p*"},
			"kernel's view of a partition": {"find", "/sys/class/block", "-name", "nvme*n*p*"},
		} {
			out, err := guest.Output(ctx, args...)
			if err != nil {
				return "", nil, err
			}
			for _, line := range strings.Fields(out) {
				found = append(found, fmt.Sprintf("%s: %s %s", node.Name, what, line))
			}
		}
		tables, err := partitionTables(ctx, guest)
		if err != nil {
			return "", nil, err
		}
		for _, line := range tables {
			found = append(found, node.Name+": "+line)
		}
	}
	return "storage nodes: no nvmet subsystem, no port in use, no partition", found, nil
}

// leftOnConsumers lists controllers and mounts of remote volumes.
func (f *Flow) leftOnConsumers(ctx context.Context) (string, []string, error) {
	var found []string
	for _, node := range layout.Nodes() {
		guest, err := f.lab.Guest(node.Name)
		if err != nil {
			return "", nil, err
		}
		controllers, err := fabricControllers(ctx, guest)
		if err != nil {
			return "", nil, err
		}
		for _, controller := range controllers {
			found = append(found, fmt.Sprintf("%s: controller %s", node.Name, controller))
		}
		mounts, err := guest.Output(ctx, "cat", "/proc/mounts")
		if err != nil {
			return "", nil, err
		}
		for _, mount := range volumeMounts(mounts) {
			found = append(found, fmt.Sprintf("%s: mount %s", node.Name, mount))
		}
	}
	return "all nodes: no NVMe-oF controller, no mount of a volume", found, nil
}
