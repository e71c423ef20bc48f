package carvetest

import (
	"context"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/carve/gpt"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/api/capacity"
)

// Step is how much of a volume is zeroed between two records of its deletion: so
// little that tests come across it.
const Step = 8 * capacity.Unit

// Manager returns a new gpt.Manager for the drive, as after a restart of the
// agent. It does not wait in real time.
func (d *Drive) Manager(t testing.TB) *gpt.Manager {
	t.Helper()
	m, err := gpt.New(gpt.Config{
		Runner: d.runner, Prober: media.NewProber(d.runner, d, d), Kernel: d, Blocks: d,
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }, Step: Step,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Env is the drive as the suite wants it.
func (d *Drive) Env(t testing.TB) Env {
	return Env{
		Manager: d.Manager(t),
		Drive:   d.Inventory(),
		Open: func(_ *testing.T, v carve.Volume) func() {
			d.Export(v.Number)
			return func() { d.Unexport(v.Number) }
		},
		Hold: func(_ *testing.T, v carve.Volume) func() {
			d.Hold(v.Number)
			return func() { d.Release(v.Number) }
		},
		Write: func(_ *testing.T, start, size int64) {
			for _, at := range []int64{start, start + size/2/capacity.Unit*capacity.Unit, start + size - 4096} {
				d.Write(at, 4096)
			}
		},
		Dirty: func(_ *testing.T, start, size int64) bool { return d.Dirty(start, size) > 0 },
		Foreign: func(*testing.T) {
			d.SetSignatures(Signature{Type: "xfs", UUID: "92bc4618-56de-4bd2-8eed-28e6cacca5ce", Usage: "filesystem"})
		},
		DamageTable: func(*testing.T) { d.Damage("primary") },
		Kernel: func(t *testing.T) []inventory.Partition {
			parts, err := d.Partitions(d.name)
			if err != nil {
				t.Fatal(err)
			}
			return parts
		},
	}
}
