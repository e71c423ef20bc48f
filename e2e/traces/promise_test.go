package traces

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/distort-io/distort/e2e/internal/programs"
	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// overTCP are the parameters of every volume here: the agent's node has a TCP portal.
func overTCP() map[string]string { return map[string]string{"transport": "tcp"} }

// TestWhatGetCapacityPromisesCanBePlaced holds GetCapacity against placement, carving
// and export: after each of a row of creations and deletions that fill and fragment
// the drive, a volume of MaximumVolumeSize is made, and one that is one step larger is
// refused (known fault PL2).
func TestWhatGetCapacityPromisesCanBePlaced(t *testing.T) {
	s := startSystem(t)
	s.claimDrive()
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	var ids []string
	for round := range 6 {
		s.promiseHolds(round)
		if len(ids) > 0 && random.IntN(3) == 0 {
			at := random.IntN(len(ids))
			s.deleteVolume(ids[at])
			ids = append(ids[:at], ids[at+1:]...)
			continue
		}
		size := capacity.Unit * (1 + random.Int64N(24))
		id, err := s.create(fmt.Sprintf("filler-%d", round), size)
		if status.Code(err) == codes.ResourceExhausted {
			continue // the agent has not looked since the last deletion
		}
		must(t, err)
		ids = append(ids, id)
	}
	for range 8 { // more than the gaps that this row leaves
		s.settled()
		if size := s.promised(); size > 0 {
			_, _ = s.create(fmt.Sprintf("rest-%d", size), size) // refused while the agent has not looked again
		}
	}
	s.promiseHolds(6)
}

// promiseHolds asks and tries when the drive's status is that of what is there, and
// again if the agent has looked at the drive meanwhile: what was carved since its last
// look is promised and refused.
func (s *system) promiseHolds(round int) {
	t := s.t
	t.Helper()
	var wrong string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		s.settled()
		promised := s.promised()
		id, err := s.create(fmt.Sprintf("larger-%d", round), promised+capacity.Unit)
		if err == nil {
			s.deleteVolume(id)
		}
		if status.Code(err) != codes.ResourceExhausted {
			wrong = fmt.Sprintf("at most %d bytes are promised, and %d bytes answer %v", promised, promised+capacity.Unit, err)
			continue
		}
		if promised == 0 {
			return
		}
		s.settled()
		if id, err = s.create(fmt.Sprintf("largest-%d", round), promised); err == nil {
			s.deleteVolume(id)
			return
		}
		wrong = fmt.Sprintf("%d bytes are promised, and refused: %v", promised, err)
	}
	t.Fatalf("round %d, for a minute: %s", round, wrong)
}

// settled waits until distort-manager has counted what is on the drive, which it does
// a moment after it changed.
func (s *system) settled() {
	s.t.Helper()
	var all v1alpha1.NVMePartitionList
	must(s.t, s.api.List(s.t.Context(), &all))
	var used int64
	for i := range all.Items {
		used += all.Items[i].Spec.Size
	}
	programs.Until(s.System, &v1alpha1.NVMeDeviceList{}, fmt.Sprintf("%d volumes of %d bytes are counted", len(all.Items), used), func(d *v1alpha1.NVMeDevice) bool {
		free := d.Status.FreeCapacity
		return free != nil && *free == d.Spec.TotalCapacity-used && len(d.Status.Reservations) == len(all.Items)
	})
}

// promised is what GetCapacity answers as the largest volume, in bytes.
func (s *system) promised() int64 {
	s.t.Helper()
	r, err := csi.NewControllerClient(s.csi).GetCapacity(s.t.Context(), &csi.GetCapacityRequest{Parameters: overTCP()}, grpc.WaitForReady(true))
	must(s.t, err)
	return r.GetMaximumVolumeSize().GetValue()
}

func (s *system) create(name string, size int64) (id string, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	r, err := csi.NewControllerClient(s.csi).CreateVolume(ctx, &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		VolumeCapabilities: []*csi.VolumeCapability{block()}, Parameters: overTCP(),
	}, grpc.WaitForReady(true))
	return r.GetVolume().GetVolumeId(), err
}

func (s *system) deleteVolume(id string) {
	s.t.Helper()
	_, err := csi.NewControllerClient(s.csi).DeleteVolume(s.t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	must(s.t, err)
}
