package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/distort-io/distort/e2e/internal/figures"
	"github.com/distort-io/distort/e2e/internal/programs"
)

// The phases of a volume's life.
const (
	create    = "CreateVolume"
	publish   = "ControllerPublishVolume"
	unpublish = "ControllerUnpublishVolume"
	remove    = "DeleteVolume"
)

// volumeBytes is the size of every volume.
const volumeBytes = 4 << 20

// patience is how long a caller waits for one call.
const patience = time.Minute

// call is one phase, for the volume of that name.
type call struct {
	phase string
	do    func(ctx context.Context, name string) error
}

// driver is distort-csi as its sidecars see it.
type driver struct {
	csi csi.ControllerClient
	ids sync.Map // by name
}

func newDriver(conn *grpc.ClientConn) *driver { return &driver{csi: csi.NewControllerClient(conn)} }

func capability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func (d *driver) id(name string) string {
	id, _ := d.ids.Load(name)
	text, _ := id.(string)
	return text
}

func (d *driver) calls() []call {
	return []call{
		{create, func(ctx context.Context, name string) error {
			r, err := d.csi.CreateVolume(ctx, &csi.CreateVolumeRequest{
				Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: volumeBytes},
				VolumeCapabilities: []*csi.VolumeCapability{capability()}, Parameters: map[string]string{"transport": "tcp"},
			}, grpc.WaitForReady(true))
			if err == nil {
				d.ids.Store(name, r.GetVolume().GetVolumeId())
			}
			return err
		}},
		{publish, func(ctx context.Context, name string) error {
			_, err := d.csi.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
				VolumeId: d.id(name), NodeId: programs.Consumer, VolumeCapability: capability(),
			})
			return err
		}},
		{unpublish, func(ctx context.Context, name string) error {
			_, err := d.csi.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: d.id(name), NodeId: programs.Consumer})
			return err
		}},
		{remove, func(ctx context.Context, name string) error {
			_, err := d.csi.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: d.id(name)})
			return err
		}},
	}
}

// measured is what one phase took.
type measured struct {
	figures.Sample
	// Elapsed is from the first call to the last answer.
	Elapsed time.Duration
}

func (m *measured) add(other measured) {
	m.Sample = append(m.Sample, other.Sample...)
	m.Elapsed += other.Elapsed
}

// rate is how many calls ended each second.
func (m *measured) rate() float64 { return float64(len(m.Sample)) / m.Elapsed.Seconds() }

// run makes a call for each name, so many at a time.
func run(ctx context.Context, callers int, names []string, c call) (measured, error) {
	took := make(figures.Sample, len(names))
	var next atomic.Int64
	var group sync.WaitGroup
	var once sync.Once
	var failed error
	began := time.Now()
	for range callers {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					return
				}
				bounded, cancel := context.WithTimeout(ctx, patience)
				started := time.Now()
				err := c.do(bounded, names[i])
				took[i] = time.Since(started)
				cancel()
				if err != nil {
					once.Do(func() { failed = fmt.Errorf("%s of %s: %w", c.phase, names[i], err) })
					return
				}
			}
		})
	}
	group.Wait()
	return measured{took, time.Since(began)}, failed
}
