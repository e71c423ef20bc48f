package volume

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// foreign describes those of the exports that have a claimed drive of this node, or a
// partition of one: nvmet exports a device twice without complaint. The devices are
// given by the name of the export.
func (v *Verifier) foreign(ctx context.Context, exports map[string][]string) ([]string, error) {
	if len(exports) == 0 {
		return nil, nil
	}
	claimed, err := v.claimed(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for name, paths := range exports {
		for _, path := range paths {
			device := path
			if real, err := filepath.EvalSymlinks(path); err == nil {
				device = real // a name below /dev/disk
			}
			if serial, ours := claimed[filepath.Base(device)]; ours {
				out = append(out, fmt.Sprintf("subsystem %s with %s of the claimed drive %s", name, path, serial))
			}
		}
	}
	return out, nil
}

// claimed are the serial numbers of the claimed drives of this node, by the names
// that kernel and SPDK have for the drives and for their slices.
func (v *Verifier) claimed(ctx context.Context) (map[string]string, error) {
	var devices v1alpha1.NVMeDeviceList
	if err := v.exporter.cache.List(ctx, &devices); err != nil {
		return nil, fmt.Errorf("list drives of this node: %w", err)
	}
	ours := map[string]bool{}
	for i := range devices.Items {
		if d := &devices.Items[i]; d.Status.ClaimRef != nil {
			ours[d.Spec.SerialNumber] = true
		}
	}
	out := map[string]string{}
	var partitions v1alpha1.NVMePartitionList
	if err := v.exporter.cache.List(ctx, &partitions); err != nil {
		return nil, fmt.Errorf("list partitions of this node: %w", err)
	}
	for i := range partitions.Items {
		if p := &partitions.Items[i]; ours[p.Spec.ParentDeviceSerialNumber] && p.Status.Backend != nil && p.Status.Backend.LvolUUID != "" {
			out[p.Status.Backend.LvolUUID] = p.Spec.ParentDeviceSerialNumber
		}
	}
	for _, d := range v.exporter.drives.Scan(ctx).Drives {
		if !ours[d.Serial] {
			continue
		}
		out[d.Name] = d.Serial
		parts, err := v.exporter.drives.Partitions(d.Name)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			out[p.Name] = d.Serial
		}
	}
	return out, nil
}
