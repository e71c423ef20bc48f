// Package zfs makes zvols on the pools of this node with the programs zpool and
// zfs.
//
// What keeps it safe, with the measurements in the repository's fact sheet:
//   - a pool is known by its GUID; its name is taken from ZFS each time;
//   - a volume is the zvol <pool>/distort/block/<id> whose local user property
//     distort:volume-uid has the UID of the volume's object, set by the same call
//     that makes the zvol. What lacks it is never changed;
//   - programs are started without a shell and answer in their scripted format;
//     what they refuse is told apart by its text, because codes do not tell;
//   - a program that hangs in the kernel keeps its own pool locked and nothing else;
//   - a size is read back, because zfs rounds silently, and never made smaller,
//     because zfs would do that without a question;
//   - the link of a zvol's device is awaited and never opened with O_CREAT, which
//     would make a file in its place;
//   - nothing here exports a pool (with an open zvol that hangs for ever), destroys
//     recursively, or mounts anything (that makes ZFS rewrite all NFS exports).
package zfs

import (
	"context"
	"errors"
	"time"

	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/devicelock"
)

// UIDProperty is the user property that says whose a zvol is.
const UIDProperty = "distort:volume-uid"

// commandTimeout bounds one start of a program. The slowest one that was seen to
// succeed took some seconds.
const commandTimeout = time.Minute

// How long a zvol's link is awaited: up to 1.7 s were seen after a creation or an
// import.
const (
	linkStep  = 100 * time.Millisecond
	linkSteps = 100
)

// Device is the block device of a zvol.
type Device struct {
	// Path is the kernel's own name for it, such as /dev/zd16, which stays as long
	// as somebody has it open.
	Path string
	// SizeBytes is its size as the kernel has it.
	SizeBytes int64
}

// Devices shows zvols as block devices.
type Devices interface {
	// Lookup returns the device of the zvol, by the link that udev makes for it. The
	// device was asked whose it is. ErrNoDevice: there is none yet.
	Lookup(ctx context.Context, dataset string) (Device, error)
}

// Blocks reads block devices past all caches; blockdev.Host does.
type Blocks interface {
	IsZero(ctx context.Context, path string, offset, length int64) (bool, error)
}

// Config is what a Manager needs. All fields but Wait are required.
type Config struct {
	Runner  command.Runner
	Devices Devices
	Blocks  Blocks
	// Wait sleeps for d or until ctx ends; nil means a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

// Manager works on the pools of this node. It is safe for concurrent use. All
// methods return soon after their context has ended.
type Manager struct {
	runner  command.Runner
	devices Devices
	blocks  Blocks
	wait    func(context.Context, time.Duration) error
	// pools are locked by their GUID, vdevs and zvols by their path.
	pools, opens *devicelock.Locks
}

// New returns a Manager.
func New(c Config) (*Manager, error) {
	if c.Runner == nil || c.Devices == nil || c.Blocks == nil {
		return nil, errors.New("zfs manager: runner, devices and blocks must all be set")
	}
	m := &Manager{
		runner: c.Runner, devices: c.Devices, blocks: c.Blocks, wait: c.Wait,
		pools: devicelock.New("pool"), opens: devicelock.New("device"),
	}
	if m.wait == nil {
		m.wait = sleep
	}
	return m, nil
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

// onPool runs work while nothing else of this process is done to the pool.
func onPool[T any](ctx context.Context, m *Manager, p Pool, work func(context.Context) (T, error)) (T, error) {
	return locked(ctx, m.pools, p.GUID, work)
}

func locked[T any](ctx context.Context, locks *devicelock.Locks, id string, work func(context.Context) (T, error)) (T, error) {
	results := make(chan T, 1)
	err := locks.Do(ctx, id, func(ctx context.Context) error {
		result, err := work(ctx)
		results <- result
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return <-results, nil
}
