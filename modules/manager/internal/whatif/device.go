package whatif

import (
	"fmt"
	"strings"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/gather"
)

// RemoveDevice foretells that a drive is taken out for good.
func RemoveDevice(i *gather.Inventory, serial string) (*Plan, error) {
	var devices []*v1alpha1.NVMeDevice
	for j := range i.Devices {
		if i.Devices[j].Spec.SerialNumber == serial {
			devices = append(devices, &i.Devices[j])
		}
	}
	if len(devices) == 0 {
		return nil, fmt.Errorf("drive %q: %w: no NVMeDevice has this serial number", serial, ErrNotFound)
	}
	p := plan(i, "remove-device", serial)
	for _, d := range devices {
		volumes := stored(i, d.Spec.NodeName, serial)
		for _, v := range volumes {
			p.affect(i, v, Stored, i.PodsOf(v), "for good: the data is on this drive alone")
		}
		p.release(d, volumes)
		if eligibility.Absent(d) {
			p.Notes = append(p.Notes, fmt.Sprintf("the drive is not in node %s now", d.Spec.NodeName))
		}
	}
	if len(devices) > 1 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d NVMeDevices have this serial number; all are counted", len(devices)))
	}
	return p.sorted(), nil
}

// release adds what keeps the drive's claim.
func (p *Plan) release(d *v1alpha1.NVMeDevice, volumes []*v1alpha1.NVMePartition) {
	ref := d.Status.ClaimRef
	switch {
	case ref == nil && len(volumes) == 0:
		p.Notes = append(p.Notes, fmt.Sprintf("%s is not claimed: nothing keeps it", d.Name))
	case ref != nil && len(volumes) == 0:
		p.Notes = append(p.Notes, fmt.Sprintf("delete NVMeDeviceClaim %s/%s first: it goes at once", ref.Namespace, ref.Name))
	case ref != nil:
		names := make([]string, 0, len(volumes))
		for _, v := range volumes {
			names = append(names, v.Name)
		}
		p.refuse("NVMeDeviceClaim "+ref.Namespace+"/"+ref.Name, "is not released while partitions are on the drive: %s", strings.Join(names, ", "))
	}
}
