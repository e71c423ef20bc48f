package eligibility

import (
	"math"
	"testing"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// FuzzTheLargestVolumeIsNotRefusedAndTheNextOneIs: what a drive is said to have room
// for can be placed on it, and nothing that is larger.
func FuzzTheLargestVolumeIsNotRefusedAndTheNextOneIs(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), int64(0), uint16(0), false)
	f.Add(16*capacity.Unit, int64(0), 4*capacity.Unit, capacity.Unit, uint16(3), false)
	f.Add(16*capacity.Unit+1, 2*capacity.Unit, capacity.Unit, int64(0), uint16(2), false)
	f.Add(16*capacity.Unit, 8*capacity.Unit, 17*capacity.Unit, int64(0), uint16(1), false)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), capacity.Unit, capacity.Unit, uint16(v1alpha1.MaxReservations), false)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(0), uint16(2), true)
	f.Fuzz(func(t *testing.T, total, extent, size, carved int64, partitions uint16, spdk bool) {
		device := &v1alpha1.NVMeDevice{
			Spec:   v1alpha1.NVMeDeviceSpec{TotalCapacity: max(0, total)},
			Status: v1alpha1.NVMeDeviceStatus{LargestFreeExtent: max(0, extent)},
		}
		if spdk {
			device.Status.ActiveBackend = v1alpha1.ActiveBackendSPDK
		}
		load := LoadOf(device)
		for range partitions % (v1alpha1.MaxReservations + 2) {
			load.Add(ShareOf(&v1alpha1.NVMePartition{
				Spec:   v1alpha1.NVMePartitionSpec{Size: max(0, size), TargetBackend: v1alpha1.BackendKernel},
				Status: v1alpha1.NVMePartitionStatus{AllocatedCapacity: max(0, carved)},
			}))
		}
		room := RoomOf(device, load)
		for _, backend := range []v1alpha1.TargetBackend{v1alpha1.BackendKernel, v1alpha1.BackendSPDK} {
			all, largest := room.For(backend)
			if largest > 0 && room.Refuses(backend, largest) != "" {
				t.Errorf("%s: %d bytes are promised and refused: %s", backend, largest, room.Refuses(backend, largest))
			}
			if next := capacity.Sum(largest, capacity.Unit); next%capacity.Unit == 0 && room.Refuses(backend, next) == "" {
				t.Errorf("%s: at most %d bytes are promised, and %d are not refused", backend, largest, next)
			}
			if largest > all || largest%capacity.Unit != 0 || all%capacity.Unit != 0 || all > device.Spec.TotalCapacity {
				t.Errorf("%s: %d bytes in all, at most %d in one volume, of %d", backend, all, largest, device.Spec.TotalCapacity)
			}
		}
	})
}
