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

	"github.com/distort-io/distort/modules/api/capacity"
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
		must(t, err)
		ids = append(ids, id)
	}
	for range 8 { // more than the gaps that this row leaves
		if size := s.promised(); size > 0 {
			_, _ = s.create(fmt.Sprintf("rest-%d", size), size) // refused while the agent has not looked again
		}
	}
	s.promiseHolds(6)
}

// promiseHolds tries until question and trials fall between two looks of the agent at
// the drive: what was carved since the last one is promised and refused.
func (s *system) promiseHolds(round int) {
	t := s.t
	t.Helper()
	var wrong string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
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
		if id, err = s.create(fmt.Sprintf("largest-%d", round), promised); err == nil {
			s.deleteVolume(id)
			return
		}
		wrong = fmt.Sprintf("%d bytes are promised, and refused: %v", promised, err)
	}
	t.Fatalf("round %d, for a minute: %s", round, wrong)
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
