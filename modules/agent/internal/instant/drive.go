package instant

import (
	"context"
	"fmt"
	"slices"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/capacity"
)

// mostVolumes is as many as a partition table has.
const mostVolumes = 128

// drive is a drive that is cut into volumes. It has the node's lock.
type drive struct {
	inventory inventory.Drive
	labelled  bool
	volumes   []carve.Volume // by their start
}

func newDrive(index int, bytes int64) *drive {
	name := fmt.Sprintf("nvme%dn1", index)
	return &drive{inventory: inventory.Drive{
		Serial: Serial(index), Model: "Instant", PCIAddress: fmt.Sprintf("0000:%02x:%02x.0", index/32, index%32), NUMANode: -1,
		Controller: fmt.Sprintf("nvme%d", index), State: inventory.StateLive, Name: name, Path: "/dev/" + name,
		Dev: inventory.DevNum{Major: 259, Minor: uint32(index * (mostVolumes + 1))}, SizeBytes: bytes, BlockBytes: 512,
	}}
}

func (d *drive) partitions() []inventory.Partition {
	out := make([]inventory.Partition, 0, len(d.volumes))
	for _, v := range d.volumes {
		out = append(out, inventory.Partition{
			Number: v.Number, Name: fmt.Sprintf("%sp%d", d.inventory.Name, v.Number), Path: v.DevicePath, Dev: v.Dev,
			StartBytes: v.StartBytes, SizeBytes: v.SizeBytes,
		})
	}
	slices.SortFunc(out, func(a, b inventory.Partition) int { return a.Number - b.Number })
	return out
}

// gap is the first one that holds so many bytes, as where it starts and which volume
// comes behind it; largest is the largest there is.
func (d *drive) gap(bytes int64) (start int64, before int, largest int64) {
	start = -1
	from := capacity.Unit
	end := d.inventory.SizeBytes - capacity.Unit
	for i := 0; i <= len(d.volumes); i++ {
		until := end
		if i < len(d.volumes) {
			until = d.volumes[i].StartBytes
		}
		largest = max(largest, until-from)
		if start < 0 && until-from >= bytes {
			start, before = from, i
		}
		if i < len(d.volumes) {
			from = until + d.volumes[i].SizeBytes
		}
	}
	return start, before, largest
}

// number is the lowest that is free.
func (d *drive) number() int {
	used := [mostVolumes + 1]bool{}
	for _, v := range d.volumes {
		used[v.Number] = true
	}
	for n := 1; n <= mostVolumes; n++ {
		if !used[n] {
			return n
		}
	}
	return 0
}

func (n *Node) drive(d inventory.Drive) (*drive, error) {
	known := n.bySer[d.Serial]
	if known == nil {
		return nil, fmt.Errorf("instant: no drive with serial %q", d.Serial)
	}
	return known, nil
}

// Init implements carve.VolumeManager.
func (n *Node) Init(_ context.Context, at inventory.Drive) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, err := n.drive(at)
	if err == nil {
		d.labelled = true
	}
	return err
}

// List implements carve.VolumeManager.
func (n *Node) List(_ context.Context, at inventory.Drive) ([]carve.Volume, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, err := n.drive(at)
	if err != nil {
		return nil, err
	}
	return slices.Clone(d.volumes), nil
}

// Create implements carve.VolumeManager.
func (n *Node) Create(_ context.Context, at inventory.Drive, s carve.Slice) (carve.Volume, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, err := n.drive(at)
	if err != nil {
		return carve.Volume{}, err
	}
	if i := d.index(s.UUID); i >= 0 {
		return d.volumes[i], nil
	}
	start, before, largest := d.gap(s.SizeBytes)
	number := d.number()
	if start < 0 || number == 0 {
		return carve.Volume{}, &carve.NoSpaceError{Serial: at.Serial, Wanted: s.SizeBytes, Largest: largest}
	}
	v := carve.Volume{
		UUID: s.UUID, Name: s.Name, Number: number, StartBytes: start, SizeBytes: s.SizeBytes,
		DevicePath: fmt.Sprintf("%sp%d", d.inventory.Path, number),
		Dev:        inventory.DevNum{Major: 259, Minor: d.inventory.Dev.Minor + uint32(number)},
	}
	d.volumes = slices.Insert(d.volumes, before, v)
	n.changes[at.Serial]++
	return v, nil
}

// Grow implements carve.VolumeManager: no benchmark grows anything.
func (*Node) Grow(context.Context, inventory.Drive, carve.Slice, func(context.Context) ([]carve.Slice, error)) (carve.Volume, error) {
	return carve.Volume{}, fmt.Errorf("%w: an instant drive does not grow its volumes", carve.ErrInvalid)
}

// Survey implements carve.VolumeManager.
func (n *Node) Survey(_ context.Context, at inventory.Drive, _ bool) (carve.Survey, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, err := n.drive(at)
	if err != nil {
		return carve.Survey{}, err
	}
	_, _, largest := d.gap(0)
	return carve.Survey{Volumes: slices.Clone(d.volumes), LargestFree: largest}, nil
}

// Changes implements carve.VolumeManager.
func (n *Node) Changes(serial string) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changes[serial]
}

// Delete implements carve.VolumeManager.
func (n *Node) Delete(_ context.Context, at inventory.Drive, uuid string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, err := n.drive(at)
	if err != nil {
		return err
	}
	if i := d.index(uuid); i >= 0 {
		d.volumes = slices.Delete(d.volumes, i, i+1)
		n.changes[at.Serial]++
	}
	return nil
}

func (d *drive) index(uuid string) int {
	return slices.IndexFunc(d.volumes, func(v carve.Volume) bool { return v.UUID == uuid })
}
