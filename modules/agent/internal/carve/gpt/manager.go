// Package gpt cuts drives into GPT partitions with sfdisk and partx.
//
// What keeps it safe, with the measurements in the repository's fact sheet:
//   - a drive is changed only when blkid and wipefs show nothing but a whole
//     table with the GUID that belongs to its serial number;
//   - a partition is found by its unique GUID only;
//   - start, size and number are computed here and given in full: sfdisk makes a
//     smaller partition without an error when it is let to choose;
//   - sfdisk is told not to speak to the kernel, which refuses while a sibling is
//     exported; partx tells it of one partition;
//   - every change is read back, and what else is in the table must be unchanged;
//   - a region is zeroed before its entry is removed, and again before a new
//     entry is made, or one is made larger, where it does not read zero;
//   - an entry shrinks while its region is zeroed from the end to the start, so
//     that a deletion that was cut off goes on where it was.
package gpt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/devicelock"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/identity"
)

// Prober says what is on a drive.
type Prober interface {
	Probe(ctx context.Context, d inventory.Drive) media.Finding
}

// Kernel is what the kernel knows of a block device.
type Kernel interface {
	// Partitions returns the kernel's partitions of a drive.
	Partitions(device string) ([]inventory.Partition, error)
	// UsesNow returns what uses a drive or partition, exports excluded.
	UsesNow(device string) ([]inventory.Use, error)
}

// Blocks reads and zeroes block devices.
type Blocks interface {
	Number(path string) (inventory.DevNum, error)
	IsZero(ctx context.Context, path string, offset, length int64) (bool, error)
	Zero(ctx context.Context, path string, offset, length int64) error
}

// Config is what a Manager needs. All fields but Wait and Step are required.
type Config struct {
	Runner command.Runner
	Prober Prober
	Kernel Kernel
	Blocks Blocks
	// Wait sleeps for d or until ctx ends; nil means a timer.
	Wait func(ctx context.Context, d time.Duration) error
	// Step is how many bytes of a volume are zeroed between two records of how far
	// its deletion has come, a multiple of capacity.Unit; 0 means 64 GiB.
	Step int64
}

// defaultStep costs two starts of a program per 64 GiB, and at most some minutes
// of zeroing when a deletion is cut off.
const defaultStep = 64 << 30

// Manager is a carve.VolumeManager for GPT partitions.
type Manager struct {
	run    command.Runner
	prober Prober
	kernel Kernel
	blocks Blocks
	wait   func(context.Context, time.Duration) error
	step   int64
	locks  *devicelock.Locks

	mu      sync.Mutex
	changes map[string]uint64
}

var _ carve.VolumeManager = (*Manager)(nil)

// New returns a Manager.
func New(c Config) (*Manager, error) {
	if c.Runner == nil || c.Prober == nil || c.Kernel == nil || c.Blocks == nil {
		return nil, errors.New("gpt manager: runner, prober, kernel and blocks must all be set")
	}
	wait := c.Wait
	if wait == nil {
		wait = sleep
	}
	step := c.Step
	if step == 0 {
		step = defaultStep
	}
	if step < 0 || step%capacity.Unit != 0 {
		return nil, fmt.Errorf("gpt manager: step %d: must be a positive multiple of %d bytes", c.Step, capacity.Unit)
	}
	return &Manager{
		run: c.Runner, prober: c.Prober, kernel: c.Kernel, blocks: c.Blocks, wait: wait, step: step,
		locks: devicelock.New("drive"), changes: map[string]uint64{},
	}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Init implements carve.VolumeManager.
func (m *Manager) Init(ctx context.Context, d inventory.Drive) error {
	if err := checkDrive(d); err != nil {
		return err
	}
	return m.change(ctx, d, func(ctx context.Context) error { return m.init(ctx, d) })
}

func (m *Manager) init(ctx context.Context, d inventory.Drive) error {
	found := m.prober.Probe(ctx, d)
	switch found.Verdict {
	case media.Distort:
		return nil
	case media.Blank:
	default:
		return refusal(d, found)
	}
	uses, err := m.kernel.UsesNow(d.Name)
	if err != nil {
		return fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	if len(uses) > 0 {
		return fmt.Errorf("drive %q: %w: %s", d.Serial, carve.ErrBusy, uses[0])
	}
	// An unknown old signature is never wiped: there is none, and never means never.
	cmd := command.New("sfdisk", "--no-reread", "--no-tell-kernel", "--wipe", "never", "--quiet", "--", d.Path).
		WithStdin("label: gpt\nlabel-id: " + identity.DiskGUID(d.Serial) + "\n")
	if _, err := m.run.Run(ctx, cmd); err != nil {
		return fmt.Errorf("drive %q: write partition table: %w", d.Serial, err)
	}
	if found := m.prober.Probe(ctx, d); found.Verdict != media.Distort {
		return fmt.Errorf("after the table was written: %w", refusal(d, found))
	}
	return nil
}

// refusal is the error for a drive that must not be changed.
func refusal(d inventory.Drive, f media.Finding) error {
	switch f.Verdict {
	case media.Blank:
		return fmt.Errorf("drive %q: %w", d.Serial, carve.ErrNotInitialised)
	case media.Foreign, media.Blobstore:
		return fmt.Errorf("drive %q: %w: %s", d.Serial, carve.ErrForeign, f.Message)
	case media.Unreadable:
		return fmt.Errorf("drive %q: %w", d.Serial, f.Err)
	default:
		return fmt.Errorf("drive %q: %w: %s", d.Serial, carve.ErrDamaged, f.Message)
	}
}

// List implements carve.VolumeManager. Partitions that DISTORT did not make are
// left out.
func (m *Manager) List(ctx context.Context, d inventory.Drive) ([]carve.Volume, error) {
	if err := checkDrive(d); err != nil {
		return nil, err
	}
	var out []carve.Volume
	err := m.locks.Do(ctx, d.Serial, func(ctx context.Context) error {
		t, err := m.readProbed(ctx, d)
		if err != nil {
			return err
		}
		parts, err := m.kernel.Partitions(d.Name)
		if err != nil {
			return fmt.Errorf("drive %q: %w", d.Serial, err)
		}
		for _, e := range t.entries {
			if !e.ours() {
				continue
			}
			v := e.volume()
			if p, ok := find(parts, e); ok {
				v.DevicePath, v.Dev = p.Path, p.Dev
			}
			out = append(out, v)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
