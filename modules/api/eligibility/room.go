package eligibility

import (
	"math"
	"slices"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Share is what one partition takes of its drive.
type Share struct {
	Backend v1alpha1.TargetBackend
	// Size in bytes that is taken, and how much of it is not carved yet.
	Size, Uncarved int64
}

// ShareOf reads what a partition takes of the drive that it is placed on.
func ShareOf(p *v1alpha1.NVMePartition) Share {
	size := Rounded(max(p.Spec.Size, p.Status.AllocatedCapacity))
	return Share{Backend: p.Spec.TargetBackend, Size: size, Uncarved: size - min(size, p.Status.AllocatedCapacity)}
}

// ReservedShare is what a partition will take that a drive is only reserved for.
func ReservedShare(r *v1alpha1.Reservation) Share {
	return Share{Backend: r.TargetBackend, Size: r.Size, Uncarved: r.Size}
}

// Rounded is the size in bytes that a partition takes. One that cannot be
// rounded takes everything, so that a mistake never looks like free space.
func Rounded(bytes int64) int64 {
	size, err := capacity.RoundUp(bytes)
	if err != nil {
		return math.MaxInt64
	}
	return size
}

// Load is the sum of the shares of a drive; see LoadOf.
type Load struct {
	// Used and Uncarved are in bytes.
	Used, Uncarved int64
	Partitions     int
	// Holders are the backends that have or will have partitions on the drive, in
	// order.
	Holders []v1alpha1.TargetBackend
}

// LoadOf is the load of a drive without partitions: only the backend that holds it.
func LoadOf(device *v1alpha1.NVMeDevice) Load {
	var l Load
	if b := device.Status.ActiveBackend; b != "" && b != v1alpha1.ActiveBackendNone {
		l.hold(v1alpha1.TargetBackend(b))
	}
	return l
}

// Add counts one more share.
func (l *Load) Add(s Share) {
	l.Used, l.Uncarved = capacity.Sum(l.Used, s.Size), capacity.Sum(l.Uncarved, s.Uncarved)
	l.Partitions++
	l.hold(s.Backend)
}

func (l *Load) hold(b v1alpha1.TargetBackend) {
	if at, held := slices.BinarySearch(l.Holders, b); !held {
		l.Holders = slices.Insert(l.Holders, at, b)
	}
}

// Room is what is left of a drive.
type Room struct {
	// Holders are the backends that have or will have partitions on the drive.
	Holders []v1alpha1.TargetBackend
	// Free is the space left in bytes.
	Free int64
	// Contiguous is how much of it in bytes is certain to be in one piece, once
	// everything that is placed but not carved yet has taken its part.
	Contiguous int64
	// Full is true when the drive holds as many partitions as it can.
	Full bool
}

// RoomOf is what this load leaves of a drive.
func RoomOf(device *v1alpha1.NVMeDevice, load Load) Room {
	room := Room{
		Holders: load.Holders, Free: max(0, device.Spec.TotalCapacity-load.Used), Contiguous: math.MaxInt64,
		Full: load.Partitions >= v1alpha1.MaxReservations,
	}
	if largest := device.Status.LargestFreeExtent; largest > 0 {
		room.Contiguous = max(0, largest-load.Uncarved)
	}
	return room
}

// Refuses is why a volume of this size in bytes and this backend does not go there.
func (r *Room) Refuses(backend v1alpha1.TargetBackend, size int64) Reason {
	switch {
	case slices.ContainsFunc(r.Holders, func(b v1alpha1.TargetBackend) bool { return b != backend }):
		return BackendElsewhere
	case r.Full:
		return TooManyPartitions
	case r.Free < size:
		return NoSpace
	case r.Contiguous < size:
		return Fragmented
	}
	return ""
}

// For is the space in bytes that volumes of this backend can fill, and the size of
// the largest one that is not refused.
func (r *Room) For(backend v1alpha1.TargetBackend) (total, largest int64) {
	if r.Refuses(backend, 0) != "" {
		return 0, 0
	}
	return whole(r.Free), whole(min(r.Free, r.Contiguous))
}

// whole is the part of a space in bytes that volumes can fill.
func whole(bytes int64) int64 { return bytes / capacity.Unit * capacity.Unit }
